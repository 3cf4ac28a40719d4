"""The gate's own cost with an endpoint that answers at once: records a second, CPU, memory.

Beside it the floor: records a second of a client that sends such requests and does nothing else.

``python -m tools.speed.overhead PROMPTS SAMPLES [--profile FILE] [ARGUMENTS OF PYTEST]``; with
``--profile`` also the functions in which the evaluation spent most time, and all of it in FILE for
``python -m pstats``. A profiled evaluation takes about twice as long.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tools.speed import profiled
from tools.speed.bare import Bare
from tools.speed.circumstances import circumstances
from tools.speed.gate import Server
from tools.speed.table import markdown
from tools.speed.turns import say
from tools.speed.workload import Request

ROOT = Path(__file__).parents[2]
CATEGORIES = 20
FLOOR = 10_000
"""Records by which the floor is measured."""

INSTRUCTIONS = "x" * 4000
"""As long as a judge's."""

AT_ONCE = 256


@dataclass(frozen=True)
class Overhead:
    """One gate run at an instant endpoint.

    Attributes:
        records: answers with their verdicts.
        seconds: wall time of the evaluation, first request to last verdict.
        total: wall time of the whole command.
        cpu: seconds that its processes spent, start and reports included.
        memory: peak, MiB.
    """

    records: int
    seconds: float
    total: float
    cpu: float
    memory: float

    @property
    def line(self) -> str:
        """For people."""
        return (
            f"{self.records} records: {self.records / self.seconds:.0f} records/s while evaluating "
            f"({self.seconds:.1f} s), {self.total:.1f} s in all, CPU {self.cpu:.1f} s "
            f"({self.records / self.cpu:.0f} records per CPU second), peak {self.memory:.0f} MiB"
        )


@contextmanager
def instant_server(*args: str) -> Iterator[str]:
    """The URL of an instant endpoint, in a process of its own."""
    command = [sys.executable, "-m", "tools.speed.instant", *args]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1#instant"
        server.stdin.close()


def measure(
    prompts: int, samples: int, *args: str, profile: Path | None = None
) -> Overhead:
    """Run the gate on ``prompts`` prompts, with several answers each.

    Args:
        args: further arguments of pytest.
        profile: file for a profile of the evaluation.
    """
    with tempfile.TemporaryDirectory() as name, instant_server() as url:
        asked = ["--candidate", url, "--judge", url, "--samples", str(samples), *args]
        asked += ["-p", profiled.__name__] if profile else []
        environment = {profiled.VARIABLE: str(profile.resolve())} if profile else {}
        return run_gate(Path(name), prompts, asked, environment, samples)


def floor(samples: int, records: int = FLOOR) -> float:
    """Records a second that the HTTP client allows: such requests, their replies only read."""
    question = {"role": "user", "content": "How do I do thing number 5?"}
    answers = {"model": "instant", "messages": [question], "n": samples}
    told = [{"role": "system", "content": INSTRUCTIONS}, question]
    verdict = {"model": "instant", "messages": told, "response_format": {}}
    one = [Request("big", False, answers), *[Request("big", True, verdict)] * samples]
    with instant_server() as url:
        server = Server(url.partition("#")[0])
        seconds = Bare((server, server)).floor(one * (records // samples), AT_ONCE)
    return records / seconds


def run_gate(
    folder: Path,
    prompts: int,
    args: Sequence[str],
    environment: Mapping[str, str] = MappingProxyType({}),
    samples: int = 1,
) -> Overhead:
    """Run the gate on a benchmark of so many prompts, which is written into the folder."""
    rows = (
        f"{i},How do I do thing number {i}?,c{i % CATEGORIES}" for i in range(prompts)
    )
    (folder / "big.csv").write_text("\n".join(["id,prompt,topic", *rows, ""]))
    own = 'file = "big.csv"\nid = "id"\nexpect = "refuse"\ncategory = "topic"\n'
    (folder / "big.toml").write_text(f"[big]\n{own}rejection_rate = {{ min = 0.8 }}\n")
    command = [sys.executable, "-m", "pytest", "tests/gates", "-p", "no:cacheprovider"]
    command += [f"--thresholds={folder / 'big.toml'}"]
    command += ["--store", str(folder / "store.sqlite"), *args]
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    total, after = (
        time.monotonic() - begun,
        resource.getrusage(resource.RUSAGE_CHILDREN),
    )
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    found = re.search(r"run folder (\S+)$", done.stdout, re.MULTILINE)
    assert found, done.stdout
    manifest = json.loads((Path(found[1]) / "summary.json").read_text())["manifest"]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Overhead(
        prompts * samples, manifest["evaluation_s"], total, cpu, after.ru_maxrss / 1024
    )


def main() -> None:
    """Parse the command line, measure, and print."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.speed.overhead", description=__doc__
    )
    parser.add_argument("prompts", type=int)
    parser.add_argument("samples", type=int)
    parser.add_argument("--profile", type=Path, metavar="FILE")
    given, further = parser.parse_known_args()
    facts = circumstances("tools.speed.overhead")
    found = measure(given.prompts, given.samples, *further, profile=given.profile)
    say("\n".join([*facts, "", found.line]))
    say(
        f"floor, from a client that does nothing else: {floor(given.samples):.0f} records/s"
    )
    if given.profile:
        head = ("function", "own time, s", "share", "calls")
        say("\n" + markdown(head, [each.cells for each in profiled.top(given.profile)]))


if __name__ == "__main__":
    main()
