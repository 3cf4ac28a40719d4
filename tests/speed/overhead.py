"""The gate's own cost with an endpoint that answers at once: records a second, CPU, memory."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CATEGORIES = 20


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
    command = [sys.executable, "-m", "tests.speed.instant", *args]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1#instant"
        server.stdin.close()


def measure(prompts: int, samples: int, *args: str) -> Overhead:
    """Run the gate on so many prompts with so many answers each."""
    with tempfile.TemporaryDirectory() as name, instant_server() as url:
        folder = Path(name)
        rows = (f"{i},How do I do thing number {i}?,c{i % CATEGORIES}" for i in range(prompts))
        (folder / "big.csv").write_text("\n".join(["id,prompt,topic", *rows, ""]))
        own = 'file = "big.csv"\nid = "id"\nexpect = "refuse"\ncategory = "topic"\n'
        (folder / "big.toml").write_text(f"[big]\n{own}rejection_rate = {{ min = 0.8 }}\n")
        command = [sys.executable, "-m", "pytest", "tests/gates", "-p", "no:cacheprovider"]
        command += ["--candidate", url, "--judge", url, "--thresholds", str(folder / "big.toml")]
        command += ["--store", str(folder / "store.sqlite"), "--samples", str(samples), *args]
        return _run(command, prompts * samples)


def _run(command: list[str], records: int) -> Overhead:
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    total, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    found = re.search(r"run folder (\S+)$", done.stdout, re.MULTILINE)
    assert found, done.stdout
    manifest = json.loads((Path(found[1]) / "summary.json").read_text())["manifest"]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Overhead(records, manifest["evaluation_s"], total, cpu, after.ru_maxrss / 1024)


if __name__ == "__main__":
    prompts, samples = (int(word) for word in sys.argv[1:3])
    print(measure(prompts, samples, *sys.argv[3:]).line)
