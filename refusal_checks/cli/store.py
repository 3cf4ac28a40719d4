"""``refusal-checks store``: the size of a store, and dropping what no run needs."""

from datetime import datetime, timedelta
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal

from refusal_checks.cli._common import STORE, Root, add_group, echo
from refusal_checks.core.errors import DataError
from refusal_checks.core.store import Contents, Store
from refusal_checks.gates import baseline
from refusal_checks.results import run_folder

File = Annotated[Path, typer.Option("--store", metavar="FILE", help="The store.")]
LONGEST = 36_500
"""Upper limit of ``--keep-days``: dates end in the year 1."""


def add(app: typer.Typer) -> None:
    add_group(app, "store", "Stored answers and verdicts.", {"info": info, "gc": gc})


def info(store: File = STORE) -> None:
    """Show how much a store holds."""
    with _open(store) as found:
        echo(f"{store}: {_described(found.contents())}")
        echo(f"{decimal(found.size())} on disk")


def gc(
    store: File = STORE,
    keep_runs: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Keep what the last N runs used (default: all runs)."
        ),
    ] = None,
    keep_days: Annotated[
        float | None,
        typer.Option(min=0, max=LONGEST, metavar="D", help="Keep what the last D days used."),
    ] = None,
    baselines: Annotated[
        list[str] | None,
        typer.Option(
            "--baseline",
            metavar="PATH",
            help="Keep the answers of this baseline or run (repeatable).",
        ),
    ] = None,
    runs: Root = run_folder.ROOT,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be dropped.")
    ] = False,
) -> None:
    """Drop answers and verdicts that no kept run has used, and free their space.

    Everything used since the oldest of the kept runs started is kept.
    """
    since = _since(keep_runs, keep_days, runs)
    kept = [baseline.load(run_folder.locate(name, runs)) for name in baselines or ()]
    scores = [each for found in kept for each in found.values()]
    prompts = [prompt for each in scores for prompt in each.prompts.values()]
    keep = {key for prompt in prompts for key, _ in prompt.answers}
    with _open(store) as found:
        before, size = found.contents(), found.size()
        unused = found.unused(since.timestamp(), keep)
        echo(f"{store}: {_described(before)}")
        echo(f"not used since {since:%Y-%m-%d %H:%M:%S}: {_described(unused)}")
        if dry_run:
            echo("nothing was dropped (--dry-run)")
            return
        found.drop(since.timestamp(), keep)
        echo(f"dropped; {decimal(size)} on disk before, {decimal(found.size())} now")


def _open(path: Path) -> Store:
    if not path.is_file():
        raise DataError(f"{path}: no such store; name one with --store FILE")
    return Store(path)


def _since(keep_runs: int | None, keep_days: float | None, folder: Path) -> datetime:
    """The time since which everything is kept: the earlier one if two are given."""
    times = []
    if keep_days is not None:
        if not isfinite(keep_days):
            raise typer.BadParameter("give a number of days", param_hint="--keep-days")
        times.append(datetime.now().astimezone() - timedelta(days=keep_days))
    if keep_runs is not None or keep_days is None:
        runs = run_folder.all_runs(folder)
        if not runs:
            raise DataError(
                f"{folder}: no runs found, so it is unknown what to keep; name their folder with "
                "--runs DIR, or give --keep-days D"
            )
        times.append(runs[-(keep_runs or 0) :][0].started)
    return min(times)


def _described(part: Contents) -> str:
    return f"{part.completions} answers, {part.judgements} verdicts: {decimal(part.bytes)}"
