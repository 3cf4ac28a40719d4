"""Seconds of an engine's start by phase: ``python -m tools.speed.start --model MODEL``.

The first turn may read files that later ones find in memory.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from refusal_checks.engines.pool import Engines
from tools.speed import subject
from tools.speed.circumstances import circumstances
from tools.speed.log_phases import Line, phases
from tools.speed.subject import Subject
from tools.speed.table import seconds
from tools.speed.turns import say

LOOK = 0.02
"""Seconds between two looks at the log."""


def main() -> None:
    """Parse the command line, start the engine several times, and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.speed.start", description=__doc__
    )
    subject.add(parser)
    given = parser.parse_args()
    models = Subject.named(given.model, given.judge)
    facts, found = circumstances("tools.speed.start"), dict[str, list[float]]()
    for number in range(given.repeats):
        for name, took in start(models).items():
            found.setdefault(name, []).append(took)
        took_all = sum(each[-1] for each in found.values())
        say(f"turn {number + 1} of {given.repeats}: {took_all:.1f} s")
    found["in all"] = [sum(turn) for turn in zip(*found.values(), strict=True)]
    say(
        "\n".join(
            ["", *facts, f"- model {given.model}", "", seconds(found, "phase, seconds")]
        )
    )


def start(models: Subject) -> dict[str, float]:
    """Seconds of each phase of one start of the candidate's engine, alone."""
    with tempfile.TemporaryDirectory() as name:
        engines = Engines(models.pool, Path(name))
        engines.place([models.candidate])
        try:
            with followed(Path(name) / "engine-0.log") as lines:
                begun = time.monotonic()
                engines.start(lambda line: None)
                ready = time.monotonic() - begun
        finally:
            engines.close()
    return phases(lines, ready)


@contextmanager
def followed(log: Path) -> Iterator[list[Line]]:
    """The lines of a growing file, with the seconds after which each was seen."""
    lines: list[Line] = []
    begun, done = time.monotonic(), threading.Event()

    def follow() -> None:
        read = 0
        while not done.wait(LOOK):
            if log.is_file():
                with log.open(errors="replace") as file:
                    file.seek(read)
                    lines.extend((time.monotonic() - begun, line) for line in file)
                    read = file.tell()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield lines
    finally:
        done.set()
        thread.join()


if __name__ == "__main__":
    main()
