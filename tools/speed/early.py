"""An engine that loads beside a gate run, against after it: ``python -m tools.speed.early``.

The run's candidate is judged by keywords, so that it has one engine; the other engine serves the
same model. At once, it begins to load when the run's engine is ready.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from tools.speed import subject
from tools.speed.circumstances import circumstances
from tools.speed.copies import ENDED, GATE
from tools.speed.start import start
from tools.speed.subject import Subject
from tools.speed.table import Ratio, ratios
from tools.speed.turns import say

READY = "is ready after"
APART, AT_ONCE = "one after the other", "at once"


def main() -> None:
    """Measure by turns, and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.speed.early", description=__doc__
    )
    subject.add(parser)
    parser.add_argument("--samples", default="1")
    given = parser.parse_args()
    models = Subject.named(given.model, given.judge)
    words = [
        models.candidate.name,
        "--judge",
        "keyword",
        "--thresholds",
        "smoke",
        "--fresh",
    ]
    words += ["--samples", given.samples, "--max-tokens", "128", "-s"]
    facts, found = circumstances("tools.speed.early"), dict[str, list[float]]()
    for number in range(given.repeats):
        for name, way in ((APART, apart), (AT_ONCE, at_once)):
            found.setdefault(name, []).append(timed(partial(way, models, words)))
        last = ", ".join(f"{name} {took[-1]:.1f} s" for name, took in found.items())
        say(f"turn {number + 1} of {given.repeats}: {last}")
    ratio = Ratio(
        f"{APART} / {AT_ONCE}",
        "a gate run and the start of another engine",
        "an engine for the candidate alone",
        tuple(found[APART]),
        tuple(found[AT_ONCE]),
    )
    say("\n".join(["", *facts, f"- model {given.model}", "", ratios([ratio])]))


def timed(work: Callable[[], None]) -> float:
    """Seconds that it takes."""
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def apart(models: Subject, words: Sequence[str]) -> None:
    """The run, then the engine."""
    run(words)
    start(models)


def at_once(models: Subject, words: Sequence[str]) -> None:
    """The run, and the engine beside its work."""
    loading = threading.Thread(target=start, args=(models,))
    run(words, loading.start)
    loading.join()


def run(words: Sequence[str], ready: Callable[[], None] = lambda: None) -> None:
    """A gate run from its start to its end.

    Args:
        ready: called when its engine is.

    Raises:
        RuntimeError: it was not evaluated, with its output.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-u", "-c", GATE, *words, "--runs", folder]
        with subprocess.Popen(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            said = []
            for line in process.stdout:
                said.append(line)
                if READY in line:
                    ready()
        if process.returncode not in ENDED:
            raise RuntimeError("".join(said[-50:]))


if __name__ == "__main__":
    main()
