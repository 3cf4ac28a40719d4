"""Time an engine's start by phase: ``python -m tools.measure.start [--model M] [--turns T]``.

The first turn may read files from disk that later turns find in memory.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.measure.gate import evaluated
from tools.measure.plain import prompts
from tools.measure.printing import by_turns, circumstances, say

Line = tuple[float, str]
"""A line of vLLM's log, and when it was seen."""

MARKS = (
    ("import of the server", r"non-default args:"),
    ("import and setup of the engine's process", r"Starting to load model"),
    ("weights", r"Loading weights took"),
    (
        "cache and warm-up",
        r"init engine \(profile, create kv cache, warmup model\) took",
    ),
    ("HTTP server", r"Starting vLLM (?:API )?server"),
)
"""The phases in their order, each with the line that ends it."""

LAST = "until it answers"
READY = "Application startup complete"


def phases(lines: Sequence[Line], ready: float) -> dict[str, float]:
    """Seconds of each phase, in order; their sum is ``ready``.

    The time of a phase whose log line is missing counts towards the next phase.

    Args:
        lines: log lines, each with seconds since the launch.
        ready: seconds from the launch to the first answer.
    """
    seconds: dict[str, float] = {}
    begun = 0.0
    for name, pattern in MARKS:
        ends = [when for when, line in lines if re.search(pattern, line)]
        if ends and begun <= ends[0] <= ready:
            seconds[name] = ends[0] - begun
            begun = ends[0]
    seconds[LAST] = ready - begun
    return seconds


@contextmanager
def followed(runs: Path) -> Iterator[list[Line]]:
    """Follow the engine's log, which will appear in a folder below ``runs``."""
    lines: list[Line] = []
    ended = threading.Event()

    def follow() -> None:
        read = 0
        while not ended.wait(0.02):
            for log in runs.glob("*/engine-0.log"):
                with log.open(errors="replace") as file:
                    file.seek(read)
                    lines.extend((time.monotonic(), line) for line in file)
                    read = file.tell()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield lines
    finally:
        ended.set()
        thread.join()


def start(model: str) -> dict[str, float]:
    """Seconds of each phase of one start, by an evaluation of two prompts."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with followed(folder / "runs") as lines:
            keys = {"sampling.max_tokens": 2}
            evaluated(folder, prompts(2), model, "keyword", keys)
    launch = lines[0][0]
    since = [(when - launch, line) for when, line in lines]
    return phases(since, next(when for when, line in since if READY in line))


def main() -> None:
    """Parse the command line, start the engine several times, and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.measure.start", description=__doc__
    )
    parser.add_argument(
        "--model", default="demo:base", help="a folder, ORG/MODEL, demo:NAME"
    )
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    say(circumstances("tools.measure.start"))
    figures: dict[str, list[float]] = {}
    for number in range(given.turns):
        seconds = start(given.model)
        seconds["in all"] = sum(seconds.values())
        say(f"turn {number + 1} of {given.turns}: {seconds['in all']:.1f} s")
        for name, value in seconds.items():
            figures.setdefault(name, []).append(value)
    say("\n" + by_turns("phase, seconds", figures))


if __name__ == "__main__":
    main()
