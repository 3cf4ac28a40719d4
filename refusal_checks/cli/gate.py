"""``refusal-checks gate`` and ``batch``: the release gates, whatever a folder's pytest does."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.cli._common import LIKE_A_RUN, add_group
from refusal_checks.results import run_folder
from refusal_checks.results.run_folder import ROOT

PACKAGE = Path(__file__).parents[1]


def add(app: typer.Typer) -> None:
    app.command(context_settings=LIKE_A_RUN, options_metavar="MODEL... [OPTIONS]")(gate)
    about = "Run very large evaluations through OpenAI batch files."
    add_group(app, "batch", about, {"export": export, "import": import_}, LIKE_A_RUN)


def gate(context: typer.Context) -> None:
    """Gate models: MODEL... --judge JUDGE [-k EXPR] and any other option of the gates or of pytest.

    MODEL is ORG/MODEL, a folder, a server's URL (http://HOST:PORT/v1#MODEL), replay:FILE or
    demo:NAME; several are tested in turn. Gates come from --thresholds, else from
    thresholds/default.toml in this folder, else from the file that is shipped. Answers and runs are
    kept in .refusal-checks in this folder, runs also elsewhere: --runs, $REFUSAL_CHECKS_RUNS or the
    key refusal_checks_runs. Otherwise the folder's own pytest configuration, conftest.py files and
    $PYTEST_ADDOPTS play no part.

    -h lists all options. Exits with 0 if every gate passed, 1 if one failed or could not be
    evaluated, 4 if something in the command is wrong, 16 if an engine did not start.
    """
    _run_pytest(context.args)


def export(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File to write the requests to, as JSONL.")
    ],
) -> None:
    """Write all pending requests of a gate run to FILE: first for answers, later for verdicts.

    After FILE come models and options of `refusal-checks gate`: MODEL --judge JUDGE -k ...
    """
    _run_pytest([f"--batch-export={file}", *context.args])


def import_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File with the results, as JSONL.")],
) -> None:
    """Store the results of a batch; once nothing is pending, a gate run can decide.

    After FILE come the options of the run. --batch-export NEXT also writes the requests that follow
    from these results; --batch-import MORE reads one more file.
    """
    _run_pytest([f"--batch-import={file}", *context.args])


def _run_pytest(words: Sequence[str]) -> None:
    import pytest

    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):  # they set up pytest for other tests
        os.environ.pop(name, None)
    raise typer.Exit(int(pytest.main(arguments(Path.cwd(), words))))


def arguments(folder: Path, words: Sequence[str]) -> list[str]:
    """The arguments of pytest for a gate run that is called in a folder."""
    runs = run_folder.usual_root(folder)
    moved = f"{run_folder.RUNS_KEY}={shlex.quote(str(folder / runs))}"
    return [
        *("-c", str(PACKAGE / "plugin" / "gate.ini"), f"--rootdir={folder}"),
        *("--noconftest", "-p", "refusal_checks.plugin"),
        *("-p", "refusal_checks.plugin.models_as_arguments"),
        *(() if runs == ROOT else ("-o", moved)),
        *words,
        # The package was loaded before pytest could rewrite its assertions, of which it has none.
        *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # after the user's own -W error
    ]
