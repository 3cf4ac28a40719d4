"""``refusal-checks store``: what is stored, and how to get rid of what no run needs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.core.errors import DataError
from refusal_checks.core.store import Contents, Store
from refusal_checks.gates import baseline
from refusal_checks.results import run_folder

File = Annotated[Path, typer.Option("--store", metavar="FILE", help="The store.")]
FILE = Path(".refusal-checks") / "store.sqlite"
LONGEST = 36_500
"""Most days that can be asked for; calendars end somewhere."""


def add(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, help="Stored answers and verdicts.")
    group.command()(info)
    group.command()(gc)
    app.add_typer(group, name="store")


def info(store: File = FILE) -> None:
    """Say how much a store holds."""
    with _open(store) as found:
        typer.echo(f"{store}: {_said(found.contents())}")
        typer.echo(f"{_bytes(found.size())} on the disk")


def gc(
    store: File = FILE,
    keep_runs: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Keep what the last N runs used (all that exist)."),
    ] = None,
    keep_days: Annotated[
        float | None,
        typer.Option(min=0, max=LONGEST, metavar="D", help="Keep what the last D days used."),
    ] = None,
    baselines: Annotated[
        list[Path] | None,
        typer.Option(
            "--baseline", metavar="PATH", help="Keep the answers of a baseline (repeatable)."
        ),
    ] = None,
    runs: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the runs' folders are.")
    ] = run_folder.ROOT,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
) -> None:
    """Drop answers and verdicts that no kept run has used, and give their space back.

    Kept is all that was used since the oldest of the kept runs started.
    """
    since = _since(keep_runs, keep_days, runs)
    keep = set(_answers(baselines or ()))
    with _open(store) as found:
        before, size = found.contents(), found.size()
        unused = found.unused(since.timestamp(), keep)
        typer.echo(f"{store}: {_said(before)}")
        typer.echo(f"not used since {since:%Y-%m-%d %H:%M:%S}: {_said(unused)}")
        if dry_run:
            typer.echo("nothing was dropped (--dry-run)")
            return
        found.drop(since.timestamp(), keep)
        typer.echo(f"dropped; {_bytes(size)} on the disk before, {_bytes(found.size())} now")


def _open(path: Path) -> Store:
    if not path.is_file():
        raise DataError(f"{path}: no store there; name one with --store FILE")
    return Store(path)


def _since(keep_runs: int | None, keep_days: float | None, folder: Path) -> datetime:
    """The time from which on everything is kept: the earlier one where two are asked for."""
    times = []
    if keep_days is not None:
        times.append(datetime.now() - timedelta(days=keep_days))
    if keep_runs is not None or keep_days is None:
        runs = run_folder.all_runs(folder)
        if not runs:
            raise DataError(
                f"{folder}: no runs there, so nothing says what to keep; name the place with "
                "--runs DIR, or say --keep-days D"
            )
        times.append(run_folder.started(runs[-(keep_runs or 0) :][0]))
    return min(times)


def _answers(paths: Iterable[Path]) -> Iterable[str]:
    """The keys of the answers that baselines name."""
    for path in paths:
        for scores in baseline.load(path).values():
            for prompt in scores.prompts.values():
                yield from (key for key, _ in prompt.answers)


def _said(found: Contents) -> str:
    counts = f"{found.completions} answers, {found.judgements} verdicts"
    return f"{counts}: {_bytes(found.bytes)}"


def _bytes(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
