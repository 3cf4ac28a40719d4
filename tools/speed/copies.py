"""Two copies of a model as data-parallel ranks, against one: ``python -m tools.speed.copies``.

Each way is a whole ``refusal-checks gate`` with the candidate on an engine of its own and the
keyword judge, which needs none; the ways are measured by turns. On a CPU a copy has cores of its
own, so one copy is measured on half of the cores as well: two copies should take half as long.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests import toy_model

GATE = (
    "import sys; from refusal_checks.cli.gate import run; sys.exit(run(sys.argv[1:]))"
)
ENDED = (0, 1)
"""Exit codes of runs that were evaluated."""


class Way(NamedTuple):
    """How the candidate is served.

    Attributes:
        parts: that the cores are divided into; the run has one of them.
    """

    name: str
    parts: int
    args: str

    @property
    def cores(self) -> list[int]:
        """Those that the run may use."""
        found = sorted(os.sched_getaffinity(0))
        return found[: max(1, len(found) // self.parts)]


WAYS = (
    Way("one copy, half of the cores", 2, ""),
    Way("one copy, all cores", 1, ""),
    Way("two copies, half of the cores each", 1, "--data-parallel-size 2"),
)


@dataclass(frozen=True)
class Run:
    """What a run says of itself.

    Attributes:
        answers: that were asked for.
        tokens: of these.
        seconds: of the evaluation.
        start: until the engine was ready, seconds.
    """

    answers: int
    tokens: int
    seconds: float
    start: float

    @classmethod
    def of(cls, manifest: dict[str, object]) -> Run:
        """From a summary's manifest."""
        found = json.loads(json.dumps(manifest))
        return cls(
            found["asked"]["answers"],
            found["tokens"]["candidate"]["output"],
            found["evaluation_s"],
            sum(found["engines"]["ready_s"]),
        )

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds


def command(model: str, way: Way, folder: Path, further: Sequence[str]) -> list[str]:
    """The gate as a user calls it, in a folder of its own."""
    words = [model, "--judge", "keyword", "--thresholds", "smoke", "--fresh", *further]
    words += ["--store", str(folder / "store.sqlite"), "--runs", str(folder / "runs")]
    args = [f"--candidate-args={way.args}"] if way.args else []
    cores = ",".join(map(str, way.cores))
    return ["taskset", "-c", cores, sys.executable, "-c", GATE, *words, *args]


def measure(model: str, way: Way, further: Sequence[str]) -> Run:
    """One run.

    Raises:
        RuntimeError: it was not evaluated; with the end of its output.
    """
    with tempfile.TemporaryDirectory() as name:
        asked = command(model, way, Path(name), further)
        done = subprocess.run(
            asked, cwd=name, capture_output=True, text=True, check=False
        )
        found = re.search(r"run folder (\S+)$", done.stdout, re.MULTILINE)
        if done.returncode not in ENDED or not found:
            raise RuntimeError(
                f"{way.name}: exit code {done.returncode}\n{done.stdout[-4000:]}"
            )
        summary = json.loads(
            (Path(name) / found[1] / "summary.json").read_text("utf-8")
        )
        return Run.of(summary["manifest"])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.speed.copies", description=__doc__
    )
    parser.add_argument("--model", default="demo:aligned")
    parser.add_argument(
        "--toy", action="store_true", help="demo: names mean the tests' toy"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--max-tokens", default="128")
    parser.add_argument("--samples", default="5")
    given = parser.parse_args()
    if given.toy:
        toy_model.use()
    further = ("--max-tokens", given.max_tokens, "--samples", given.samples)
    runs: dict[Way, list[Run]] = {way: [] for way in WAYS}
    for _ in range(given.repeats):
        for way, found in runs.items():
            found.append(measure(given.model, way, further))
            print(f"{way.name}: {found[-1]}, {found[-1].rate:.0f} tokens/s", flush=True)
    _show(runs)


def _show(runs: dict[Way, list[Run]]) -> None:
    first = next(iter(runs.values()))
    print(
        "\n| | tokens a second | against half of the cores | start, s |\n|---|---|---|---|"
    )
    for way, found in runs.items():
        rates = [run.rate / one.rate for run, one in zip(found, first, strict=True)]
        cells = (
            f"{statistics.median(run.rate for run in found):.0f}",
            f"{statistics.median(rates):.2f} ({min(rates):.2f} to {max(rates):.2f})",
            f"{statistics.median(run.start for run in found):.0f}",
        )
        print(f"| {way.name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
