"""The folders of all runs of a project, in the order in which they started."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

from refusal_checks.errors import DataError, require_known
from refusal_checks.run_folder import RunFolder

ROOT = Path(".refusal-checks") / "runs"
"""Where runs are, from a project's own folder."""

LAST = "last"

_NAME = re.compile(r"(\d{8}-\d{6})-\d+(-\d+)?")


def all_runs(root: Path) -> list[RunFolder]:
    """The runs of a project, the oldest first; none where there is no such folder."""
    paths = ((_order(path.name), path) for path in root.glob("*"))
    found = [(order, path) for order, path in paths if order and path.is_dir()]
    return [RunFolder(path) for _, path in sorted(found)]


def find(name: str, root: Path) -> RunFolder:
    """One run.

    Args:
        name: its folder, its ``summary.json``, its id (the folder's name), or ``last``.

    Raises:
        DataError: there is no such run.
    """
    path = Path(name)
    if path.is_dir() or path.is_file():
        return RunFolder.of(path)
    runs = {run.path.name: run for run in all_runs(root)}
    if not runs:
        raise DataError(
            f"{root}: no runs there; name a run's folder, or where runs are: --runs DIR"
        )
    if name == LAST:
        return list(runs.values())[-1]
    require_known(name, runs, str(root), "run", DataError)
    return runs[name]


def started(run: RunFolder) -> datetime:
    """When a run started, in local time, which its folder's name tells."""
    order = _order(run.path.name)
    assert order, run.path
    return order[0]


def _order(name: str) -> tuple[datetime, int] | None:
    """What ids sort by: the time, then the number among the candidates of one session."""
    found = _NAME.fullmatch(name)
    if not found:
        return None
    try:
        time = datetime.strptime(found[1], "%Y%m%d-%H%M%S")
    except ValueError:  # digits that are no date
        return None
    return time, int((found[2] or "-0")[1:])
