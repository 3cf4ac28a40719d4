"""How every command is told which run is meant."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from refusal_checks.core.errors import DataError, UserError
from refusal_checks.gates.decide import Verdict
from refusal_checks.reports import explain
from refusal_checks.results import run_folder
from refusal_checks.run.options.command_line import REDACT

Value = TypeVar("Value")

_NAMED = '"last", an id or the start of one, a folder, or a summary.json'
EACH_RUN = f"Runs, each by {_NAMED}"

Run = Annotated[str, typer.Argument(metavar="RUN", help=f"A run: {_NAMED}.")]
Runs = Annotated[list[str], typer.Argument(metavar="RUN...", help=f"{EACH_RUN}.")]


def _usual(context: typer.Context, parameter: typer.CallbackParam, named: Path) -> Path:
    """What is named on the command line, even if it is the default; else the project's folder."""
    source = context.get_parameter_source(str(parameter.name))
    return run_folder.usual_root() if source and source.name == "DEFAULT" else named


Root = Annotated[
    Path,
    typer.Option(
        "--runs",
        metavar="DIR",
        callback=_usual,
        help="The folder that holds the runs ($REFUSAL_CHECKS_RUNS).",
    ),
]


Page = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Also write a page to this file.")
]
Redact = Annotated[
    bool, typer.Option("--redact", help=f"Show hashes and lengths, not texts (${REDACT}=1).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def require_target(target: Path, root: Path, command: str, right: Iterable[str | Path]) -> None:
    """Refuse a run where the file or folder to write should be named.

    Args:
        command: the command in use.
        right: its arguments in the right order.
    """
    try:
        found = run_folder.find(str(target), root).summary_file
    except DataError:
        return
    named = target.name in (run_folder.LAST, run_folder.SUMMARY)
    if named or (found != target and found.is_file()):
        line = shlex.join(map(str, right))
        raise UserError(
            f"write `refusal-checks {command} {line}`: {target} is a run, and stands where the "
            "command takes what it should write"
        )


def write_page(write: Callable[[Value, Path], None], found: Value, path: Path) -> None:
    """Write a page."""
    try:
        write(found, path)
    except OSError as fault:
        raise DataError(f"{path}: cannot be written: {fault.strerror}") from None


def verdict_facts(verdict: Verdict) -> dict[str, Any]:
    """What JSON says of a gate's verdict."""
    return {
        "outcome": explain.mark(verdict),
        "passed": verdict.passed,
        "figure": verdict.estimate.value,
        "interval": [verdict.estimate.lower, verdict.estimate.upper],
        "n": verdict.estimate.n,
    }
