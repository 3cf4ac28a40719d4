"""All runs below a folder: a project's own, or files of CI artifacts, however they lie there."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from refusal_checks.core.errors import DataError
from refusal_checks.results.run_folder import SUMMARY, PastRun, RunFolder


@dataclass(frozen=True)
class Skipped:
    """A summary that is not shown, and why."""

    path: Path
    why: str


@dataclass(frozen=True)
class ManyRuns:
    """The runs below a folder, the oldest first, and what was left out."""

    runs: tuple[PastRun, ...] = ()
    skipped: tuple[Skipped, ...] = ()


def collect(root: Path, kind: type[RunFolder] = RunFolder) -> ManyRuns:
    """Read every ``summary.json`` below a folder; files that are none are skipped, with the reason.

    A copy of a run, as when it was downloaded twice, is skipped too.

    Args:
        root: searched with all folders in it; links to folders are not followed.
        kind: ``RedactedFolder`` to read them without texts.

    Raises:
        DataError: there is no such folder.
    """
    if not root.is_dir():
        raise DataError(f"{root}: name a folder with runs; there is no such folder")
    runs: list[PastRun] = []
    skipped: list[Skipped] = []
    seen: dict[str, Path] = {}
    for path in sorted(root.rglob(SUMMARY)):
        found = _read(path, seen, kind)
        if isinstance(found, Skipped):
            skipped.append(found)
        else:
            runs.append(found)
    return ManyRuns(tuple(sorted(runs, key=_order)), tuple(skipped))


def _read(path: Path, seen: dict[str, Path], kind: type[RunFolder]) -> PastRun | Skipped:
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest in seen:
            return Skipped(path, f"the same run as {seen[digest]}")
        folder = kind.of(path)
        run = PastRun(folder, folder.summary())
    except OSError as fault:
        return Skipped(path, f"cannot be read: {fault.strerror}")
    except DataError as fault:
        return Skipped(path, str(fault).removeprefix(f"{path}: "))
    seen[digest] = path
    return run


def started(run: PastRun) -> datetime | None:
    """When a run started, in UTC; None where it does not tell."""
    try:
        found = datetime.fromisoformat(run.summary.manifest.started)
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def _order(run: PastRun) -> tuple[datetime, str]:
    return started(run) or datetime.min.replace(tzinfo=UTC), str(run.folder.path)
