"""Disturbs runs at random and resumes them: ``python -m tools.chaos --kills 100``.

After each fault it runs the same command again. It counts answers and verdicts that a server gave
and the store lost (except what was in flight), those that were requested again although they were
stored or in flight, processes that still live ten seconds after the disturbed run, runs whose
figures differ from those of an undisturbed run, and runs whose exit code is not that of their
answer. All counts must be 0; if not, the exit code is 1 and the folders stay.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

from tests.support.processes import wait_until
from tools.chaos import project as projects
from tools.chaos.faults import KILLS, OTHERS, CannotMountError, Disturb, unmounted
from tools.chaos.project import (
    ANSWERS,
    END,
    ENGINE,
    IN_FLIGHT,
    SAMPLES,
    Project,
    ended,
    free_port,
)

ROLES = ("candidate", "judge")
BAD = ("lost", "repeated", "orphans", "other figures", "other answers", "hung")
COLUMNS = ("fault", "runs", "signals", *BAD)


@dataclass
class Harness:
    """Disturbs one run after another.

    Attributes:
        port: port of the servers that runs attach to; it is part of the store keys.
        right: figures of an undisturbed run, by whether it started an engine.
    """

    folder: Path
    port: int = field(default_factory=free_port)
    right: dict[bool, object] = field(default_factory=dict)

    def learn(self) -> None:
        """Run once without and with an engine, undisturbed."""
        for engine in (False, True):
            project = Project(self.folder / f"undisturbed-{engine:d}", self.port)
            assert self._run(project, engine), project.said
            assert project.stored() == dict.fromkeys(ROLES, ANSWERS), project.folder
            self.right[engine] = project.figures()

    def disturb(
        self, name: str, fault: Disturb, engine: bool, seed: int
    ) -> Counter[str]:
        """Disturb a run, resume it, and return what was found."""
        project = Project(self.folder / f"{seed}", self.port)
        with unmounted(project.store.parent):
            how = fault(project, random.Random(seed))
            counts = Counter(runs=1, signals=how.signals, hung=int(not how.in_time))
            wait_until(lambda: not project.processes(), 10)
            counts["orphans"] = len(project.processes())
            counts += self._resumed(project, engine)
            counts["other answers"] = project.contradictions
        bad = {column: counts[column] for column in BAD if counts[column]}
        outcome = f"{bad}: {project.folder}" if bad else "nothing lost"
        print(f"{name}, seed {seed}: {outcome}", flush=True)
        if not bad:
            shutil.rmtree(project.folder)
        return counts

    def _resumed(self, project: Project, engine: bool) -> Counter[str]:
        given = list(project.given)
        stored = project.stored()
        kept = project.stored(sound=False)
        in_time = self._run(project, engine)
        asked = project.given[len(given) :]

        counts = Counter(hung=int(not in_time))
        in_flight = IN_FLIGHT * SAMPLES
        for role in ROLES:
            notes = [note for note in given if note.startswith(role)]
            again = [note for note in asked if note.startswith(role)]
            different = len(set(notes))
            counts["lost"] += max(0, different - kept[role] - in_flight)
            counts["repeated"] += max(0, len(notes) - different - in_flight)
            counts["repeated"] += max(0, len(again) - (ANSWERS - stored[role]))
        counts["other figures"] = int(project.figures() != self.right[engine])
        for count in project.stored().values():
            counts["lost"] += max(0, ANSWERS - count)
        return counts

    def _run(self, project: Project, engine: bool) -> bool:
        if engine:
            return ended(project.start(ENGINE))
        with project.serving(0):
            return ended(project.start(project.attached))


@contextmanager
def suppress_mounts(name: str) -> Iterator[None]:
    """Skip faults that need a mount if this user may not mount, and say so."""
    try:
        yield
    except CannotMountError as fault:
        print(f"{name}: left out, run as root: {fault}", flush=True)


def line(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="signals to send")
    parser.add_argument(
        "--others", type=int, default=4, help="runs of each fault without a signal"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--patience", type=float, default=END, help="seconds for a run to end"
    )
    parser.add_argument("--only", default="", help="faults whose name has this")
    options = parser.parse_args()
    projects.END = options.patience
    began, table = time.monotonic(), dict[str, Counter[str]]()
    harness = Harness(Path(tempfile.mkdtemp(prefix="chaos-")).resolve())
    harness.learn()
    seeds = iter(range(options.seed * 1_000_000, sys.maxsize))
    kills = {name: fault for name, fault in KILLS.items() if options.only in name}
    for name, fault in cycle(kills.items()):
        if sum(row["signals"] for row in table.values()) >= options.kills:
            break
        table.setdefault(name, Counter()).update(
            harness.disturb(name, *fault, next(seeds))
        )
    for name, fault in OTHERS.items():
        with suppress_mounts(name):
            for seed in islice(seeds, options.others if options.only in name else 0):
                table.setdefault(name, Counter()).update(
                    harness.disturb(name, *fault, seed)
                )
    total = sum(table.values(), Counter[str]())
    print(line(*COLUMNS), line("---", *["---:"] * (len(COLUMNS) - 1)), sep="\n")
    for name, row in [*table.items(), ("all", total)]:
        print(line(name, *(row[column] for column in COLUMNS[1:])))
    print(f"{time.monotonic() - began:.0f} s")
    sys.exit(any(total[column] for column in BAD))


if __name__ == "__main__":
    main()
