"""A pytest plugin that profiles the evaluation of a gate run, and what its profile says.

``-p tools.speed.profiled`` writes it to the file that ``VARIABLE`` names, without what pytest does
before and after.
"""

from __future__ import annotations

import cProfile
import os
import pstats
from pathlib import Path
from typing import NamedTuple

from refusal_checks.evaluation.run import Run

VARIABLE = "REFUSAL_CHECKS_SPEED_PROFILE"
TOP = 10


def pytest_configure() -> None:
    """Replace the evaluation with a profiled one."""
    file, evaluate = os.environ[VARIABLE], Run.evaluate

    def profiled(self: Run, following: Run | None = None) -> None:
        profile = cProfile.Profile()
        try:
            profile.runcall(evaluate, self, following)
        finally:
            profile.dump_stats(file)

    Run.evaluate = profiled  # type: ignore[method-assign]


class Function(NamedTuple):
    """One function of a profile.

    Attributes:
        own: seconds in it, without what it calls; share: of the whole profile.
    """

    name: str
    own: float
    share: float
    calls: int

    @property
    def cells(self) -> tuple[str, ...]:
        """Its row in a table."""
        return f"`{self.name}`", f"{self.own:.2f}", f"{self.share:.0%}", str(self.calls)


def top(file: Path, count: int = TOP) -> list[Function]:
    """The functions with the most own time, the greatest first."""
    # An attribute of pstats that its stubs leave out.
    found: dict[tuple[str, int, str], tuple[int, int, float, float, object]]
    found = vars(pstats.Stats(str(file)))["stats"]
    total = sum(each[2] for each in found.values()) or 1.0
    first = sorted(found.items(), key=lambda item: -item[1][2])[:count]
    return [
        Function(shown(*where), own, own / total, calls)
        for where, (_, calls, own, _, _) in first
    ]


def shown(file: str, line: int, name: str) -> str:
    """A function for people: its module's last two parts and its name."""
    if file == "~":  # built in
        return name.strip("<>")
    parts = Path(file).with_suffix("").parts[-2:]
    return f"{'/'.join(parts)}.{name}:{line}"
