"""``refusal-checks gate`` and ``batch``: release gates without a folder's own pytest setup."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.cli._common import LIKE_A_RUN, add_group


def add(app: typer.Typer) -> None:
    app.command(context_settings=LIKE_A_RUN, options_metavar="MODEL... [OPTIONS]")(gate)
    about = "Run very large evaluations through OpenAI batch files."
    add_group(app, "batch", about, {"export": export, "import": import_}, LIKE_A_RUN)


def gate(context: typer.Context) -> None:
    """Gate models: MODEL... --judge JUDGE [-k EXPR] and any other option of the gates or of pytest.

    MODEL is ORG/MODEL, a folder, a server's URL (http://HOST:PORT/v1#MODEL), replay:FILE or
    PREFIX:NAME of an extension; several are tested in turn. Gates come from --thresholds, else from
    this folder's thresholds/default.toml, else from the shipped file. Answers and runs are kept in
    this folder's .refusal-checks. Of the folder's pytest configuration only refusal_checks_runs
    counts; conftest.py and $PYTEST_ADDOPTS are ignored.

    -h lists all options. Exits with 0 if every gate passed, 1 if one failed or could not be
    evaluated, 4 if something in the command is wrong, 7 if all passed but the answer rests on
    something that was not shown, 16 if an engine did not start.
    """
    _run(context.args)


def export(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="File to write the requests to, as JSONL."),
    ],
) -> None:
    """Write all pending requests of a gate run to FILE: first for answers, later for verdicts.

    After FILE come models and options of `refusal-checks gate`: MODEL --judge JUDGE -k ...
    """
    _run([f"--batch-export={file}", *context.args])


def import_(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File with the results, as JSONL.")
    ],
) -> None:
    """Store the results of a batch; once nothing is pending, a gate run can decide.

    After FILE come the options of the run. --batch-export NEXT also writes the requests that follow
    from these results; --batch-import MORE reads one more file.
    """
    _run([f"--batch-import={file}", *context.args])


def _run(words: Sequence[str]) -> None:
    from refusal_checks.plugin import command  # not for other commands

    raise typer.Exit(command.run(Path.cwd(), words))
