"""A project whose runs are disturbed: its folder, its runs, and its store's content."""

from __future__ import annotations

import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import psutil

from refusal_checks.io.store import _digest
from refusal_checks.wording.release import EXIT_CODES, HEADLINES
from tests import toy_model
from tests.support import fake_engines
from tests.support.forked import Forked, for_pytest
from tests.support.processes import lives, wait_until
from tools.chaos import server

ROOT = Path(__file__).parents[2]
PROMPTS, SAMPLES, IN_FLIGHT = 40, 2, 4
ANSWERS = PROMPTS * SAMPLES
"""Answers, and verdicts, of a whole run."""

THRESHOLDS = """
[mine]
file = "rows.jsonl"
expect = "refuse"
prompt = "text"
rejection_rate = { min = 0.1 }

[store]
reuse = true    # a run may be disturbed when it has decided all
"""
END = 90.0
"""Seconds in which a disturbed run must have ended."""

ENGINE = ("--candidate", "demo:aligned", "--judge", "demo:writer")
ENTRY = """
import runpy, sys
sys.argv.append("--core")
runpy.run_path({path!r}, run_name="__main__")
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Project:
    """A folder with a gate on forty prompts, and a stand-in for vLLM on its path.

    Args:
        port: port of the server that a run attaches to if it starts no engine.
    """

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.store = folder / ".refusal-checks" / "store.sqlite"
        self._runs: list[Forked] = []
        (folder / "thresholds").mkdir(parents=True)
        (folder / "thresholds" / "default.toml").write_text(THRESHOLDS)
        rows = (
            json.dumps({"text": f"Request number {i}"}) + "\n" for i in range(PROMPTS)
        )
        (folder / "thresholds" / "rows.jsonl").write_text("".join(rows))
        (folder / "conftest.py").write_text(
            'pytest_plugins = ["refusal_checks.plugin"]\n'
        )
        (folder / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
        (folder / "test_gates.py").write_bytes(
            (ROOT / "tests/gates/test_gates.py").read_bytes()
        )
        fake_engines.install(folder, ENTRY.format(path=server.__file__))

    @property
    def attached(self) -> tuple[str, ...]:
        """The models of a run that attaches."""
        url = f"http://127.0.0.1:{self.port}/v1#fake"
        return "--candidate", url, "--judge", url

    def start(
        self,
        models: Sequence[str],
        *args: str,
        delay: float = 0.0,
        prepare: Callable[[], None] | None = None,
    ) -> Forked:
        """Start a run; ``delay`` is the seconds that its engine takes for an answer."""
        limit = ("--set", f"limits.in_flight={IN_FLIGHT}")
        words = for_pytest([*models, "--samples", str(SAMPLES), *limit, *args])
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("PYTEST")
        }
        path = os.pathsep.join([str(self.folder), str(ROOT)])
        toy = {toy_model.VARIABLE: str(toy_model.FOLDER)}
        settings = {"PYTHONPATH": path, "VLLM_CHAOS_DELAY": str(delay), **toy}
        output = self.folder / f"output-{len(self._runs)}.txt"
        run = Forked(
            ["pytest", *words],
            self.folder,
            (output, output),
            {**kept, **settings},
            prepare,
        )
        self._runs.append(run)
        return run

    @property
    def said(self) -> str:
        """All that its runs printed."""
        return "".join(run.said for run in self._runs)

    @property
    def contradictions(self) -> int:
        """Runs that ended by themselves with another exit code than their answer's, or a fault."""
        return sum(_contradicts(run.said, run.wait(0)) for run in self._runs)

    @contextmanager
    def serving(self, delay: float) -> Iterator[subprocess.Popen[bytes]]:
        """The server that a run attaches to."""
        env = {**os.environ, "VLLM_CHAOS_DELAY": str(delay)}
        command = [sys.executable, server.__file__, "--port", str(self.port)]
        with subprocess.Popen(command, cwd=self.folder, env=env) as running:
            try:
                assert wait_until(lambda: _listens(self.port), END)
                yield running
            finally:
                running.kill()

    @property
    def given(self) -> list[str]:
        """Notes of all answers that the servers gave, in order."""
        log = self.folder / server.LOG
        return log.read_text().splitlines() if log.exists() else []

    def stored(self, *, sound: bool = True) -> dict[str, int]:
        """Count answers and verdicts in the store; with ``sound``, only unchanged ones."""
        tables = {"candidate": "completions", "judge": "judgements"}
        counts: dict[str, int] = {}
        if not self.store.exists():
            return dict.fromkeys(tables, 0)
        with closing(sqlite3.connect(self.store, timeout=30)) as file:
            existing = {
                name for (name,) in file.execute("SELECT name FROM sqlite_master")
            }
            for role, table in tables.items():
                query = f"SELECT key, CAST(value AS BLOB), digest FROM {table}"
                rows = file.execute(query) if table in existing else ()
                counts[role] = 0
                for key, text, own in rows:
                    if not sound or _digest(key, text) == own:
                        counts[role] += 1
        return counts

    def forget(self) -> None:
        """Delete the notes of answers, for a project that has lost its store."""
        (self.folder / server.LOG).unlink(missing_ok=True)

    def figures(self) -> object:
        """The last run's figures, without times and names."""
        summaries = sorted(
            self.folder.glob(".refusal-checks/runs/*/summary.json"), key=_written
        )
        if not summaries:
            return None
        summary = json.loads(summaries[-1].read_bytes())
        gates = {
            gate: verdict["estimate"] for gate, verdict in summary["verdicts"].items()
        }
        kept = ("prompts", "answers", "invalid")
        rows = {}
        for name, benchmark in summary["benchmarks"].items():
            rows[name] = [benchmark[key] for key in kept]
        return gates, rows, summary["errors"]

    def processes(self, besides: Sequence[int] = ()) -> list[psutil.Process]:
        """The live processes that work in this folder."""
        own = []
        for process in psutil.process_iter(["cwd", "pid"]):
            if process.info["cwd"] == str(self.folder) and process.pid not in besides:
                own.append(process)
        return list(filter(lives, own))


def ended(run: Forked) -> bool:
    """True if a run ended in time; else kill it."""
    try:
        run.wait(END)
    except subprocess.TimeoutExpired:
        run.kill()
        run.wait(10)
        return False
    return True


def pause_until(condition: Callable[[], bool], run: Forked) -> bool:
    """Wait until a condition holds or the run has ended; True if it holds."""
    deadline = time.monotonic() + END
    while run.is_alive() and time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.005)
    return condition()


def _contradicts(said: str, code: int) -> bool:
    if "INTERNALERROR" in said:
        return True
    answer = re.search(r"^May it ship\? (.*?):", said, re.MULTILINE)
    if code < 0 or not answer:  # killed, or it ended before there was an answer
        return code == 0
    by_headline = {text.upper(): name for name, text in HEADLINES.items()}
    name = by_headline.get(answer[1].upper())
    assert name, answer[1]
    if name == "open":  # what kept it open may have a code of its own
        return code in (0, EXIT_CODES["unverified"])
    return code != EXIT_CODES.get(name, 0)


def _written(path: Path) -> float:
    return path.stat().st_mtime


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
