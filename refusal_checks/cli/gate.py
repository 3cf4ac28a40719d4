"""``refusal-checks gate``: the release gates from any folder, whatever its pytest is set up for."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from refusal_checks.results import run_folder
from refusal_checks.results.run_folder import ROOT

PACKAGE = Path(__file__).parents[1]
_LIKE_A_RUN = {"allow_extra_args": True, "ignore_unknown_options": True}
_OTHERS = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS")
"""Environment variables that set up pytest for other tests."""


def add(app: typer.Typer) -> None:
    """Add the command."""
    app.command(context_settings=_LIKE_A_RUN, options_metavar="MODEL... [OPTIONS]")(gate)


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
    raise typer.Exit(run(context.args))


def run(words: Sequence[str]) -> int:
    """Run the gates as the command does, and return pytest's exit code."""
    import pytest

    for name in _OTHERS:
        os.environ.pop(name, None)
    return int(pytest.main(arguments(Path.cwd(), words)))


def arguments(folder: Path, words: Sequence[str]) -> list[str]:
    """The arguments of pytest for a gate run that is called in a folder."""
    settings = [word for setting in _settings(folder) for word in ("-o", setting)]
    return [
        *("-c", str(PACKAGE / "plugin" / "gate.ini"), f"--rootdir={PACKAGE.parent}"),
        *("--noconftest", "-p", "refusal_checks.plugin"),
        *("-p", "refusal_checks.plugin.models_as_arguments", *settings, *words),
    ]


def _settings(folder: Path) -> Iterator[str]:
    own = folder / ".refusal-checks"
    yield f"refusal_checks_folder={shlex.quote(str(own))}"
    yield f"cache_dir={own / 'pytest-cache'}"
    if (runs := run_folder.usual_root(folder)) != ROOT:
        yield f"{run_folder.RUNS_KEY}={shlex.quote(str(folder / runs))}"
    thresholds = folder / "thresholds" / "default.toml"
    if thresholds.is_file():
        yield f"refusal_checks_thresholds={shlex.quote(str(thresholds))}"
