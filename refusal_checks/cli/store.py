"""``refusal-checks store``: show a store's size and drop what no run needs."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal

from refusal_checks.cli._common import STORE, Root, add_group, echo
from refusal_checks.core.errors import DataError
from refusal_checks.core.store import Contents, Store
from refusal_checks.results import run_folder
from refusal_checks.results.run_folder import earlier_scores

File = Annotated[Path, typer.Option("--store", metavar="FILE", help="The store.")]
LONGEST = 36_500
"""Upper limit of ``--keep-days``: Python has no dates before the year 1."""


def add(app: typer.Typer) -> None:
    add_group(app, "store", "Stored answers and verdicts.", {"gc": gc})


def gc(
    store: File = STORE,
    keep_runs: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Keep what the last N runs used (default: all runs).",
        ),
    ] = None,
    keep_days: Annotated[
        float | None,
        typer.Option(
            min=0, max=LONGEST, metavar="D", help="Keep what the last D days used."
        ),
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
        bool,
        typer.Option(
            "--dry-run",
            help="Only show what the store holds, and what would be dropped.",
        ),
    ] = False,
) -> None:
    """Drop answers and verdicts that no kept run has used, and free their space.

    Keeps everything used since the oldest kept run started.
    """
    keep = _answers_of(baselines or [], runs)
    with _open(store) as opened:
        size = opened.size()
        echo(f"{store}: {_described(opened.contents())}, {decimal(size)} on disk")
        since = _since(keep_runs, keep_days, runs)
        unused = opened.unused(since.timestamp(), keep)
        echo(f"not used since {since:%Y-%m-%d %H:%M:%S}: {_described(unused)}")
        if dry_run:
            echo("nothing was dropped (--dry-run)")
            return
        opened.drop(since.timestamp(), keep)
        echo(f"dropped; {decimal(size)} on disk before, {decimal(opened.size())} now")


def _answers_of(baselines: Sequence[str], runs: Path) -> set[str]:
    """Store keys of all answers of these baselines."""
    keys: set[str] = set()
    for name in baselines:
        for scores in earlier_scores(run_folder.locate(name, runs)).values():
            for prompt in scores.prompts.values():
                keys.update(key for key, _ in prompt.answers)
    return keys


def _open(path: Path) -> Store:
    if not path.is_file():
        raise DataError(f"{path}: no such store; name one with --store FILE")
    return Store(path)


def _since(keep_runs: int | None, keep_days: float | None, folder: Path) -> datetime:
    """The time from which on everything is kept: the earlier of two."""
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
        kept = runs if keep_runs is None else runs[-keep_runs:]
        times.append(kept[0].started)
    return min(times)


def _described(part: Contents) -> str:
    return (
        f"{part.completions} answers, {part.judgements} verdicts: {decimal(part.bytes)}"
    )
