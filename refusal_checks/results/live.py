"""What a run has done so far, in files of its folder that ``refusal-checks watch`` reads.

``live/plan.json`` says what will be evaluated, ``live/state.json`` how far it is, and
``live/records/BENCHMARK.jsonl`` has every judged prompt, in the form of a run's records and without
texts if the run is redacted. A thread of its own writes them, so that no disk slows the evaluation,
and stops at the first fault. A complete run removes them: its records and summary say it all.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter

from refusal_checks.core.files import write_json, write_text
from refusal_checks.core.records import Record
from refusal_checks.gates.gate import Gate
from refusal_checks.results.progress import Count, Progress
from refusal_checks.results.run_folder import dump_line

FOLDER = "live"

EVERY = 0.5
"""Seconds between two updates of the files."""


@dataclass(frozen=True)
class LivePlan:
    """What a run is about to do.

    Attributes:
        benchmarks: prompts to evaluate, by benchmark.
        level: confidence level of intervals.
        host, process: where the run is; it has ended if the process has.
    """

    candidate: str
    judge: str
    benchmarks: Mapping[str, int]
    gates: tuple[Gate, ...]
    level: float = 0.95
    redacted: bool = False
    host: str = field(default_factory=socket.gethostname)
    process: int = field(default_factory=os.getpid)


@dataclass(frozen=True)
class LiveState:
    """How far a run is; see ``Progress``."""

    phase: str = ""
    tokens: int = 0
    benchmarks: Mapping[str, Count] = field(default_factory=dict)


_PLAN, _STATE = TypeAdapter(LivePlan), TypeAdapter(LiveState)


def read_plan(run: Path) -> LivePlan | None:
    """The plan of a run, given its folder; None if it has none that can be read."""
    with suppress(OSError, ValueError):
        return _PLAN.validate_json((run / FOLDER / "plan.json").read_bytes())
    return None


def read_state(run: Path) -> LiveState:
    """How far a run is; an empty state where that is not known."""
    with suppress(OSError, ValueError):
        return _STATE.validate_json((run / FOLDER / "state.json").read_bytes())
    return LiveState()


def records_file(run: Path, benchmark: str) -> Path:
    """The file with a benchmark's judged prompts so far."""
    return run / FOLDER / "records" / f"{benchmark}.jsonl"


class LiveLog:
    """Writes the files of one run, from ``start`` to ``stop``.

    Args:
        run: the run's folder.
        shown: the records as the run may show them.
    """

    def __init__(
        self,
        run: Path,
        progress: Progress,
        shown: Callable[[Sequence[Record]], Sequence[Record]],
    ) -> None:
        self._run = run
        self._progress = progress
        self._shown = shown
        self._waiting: deque[tuple[str, Sequence[Record]]] = deque()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="live", daemon=True)
        self._last: LiveState | None = None

    def start(self, plan: LivePlan) -> None:
        """Begin to write; says nothing if that cannot be done."""
        with suppress(OSError):
            write_text(self._run / FOLDER / "plan.json", _PLAN.dump_json(plan).decode())
            self._progress.listener = self._see
            self._thread.start()

    def stop(self, *, keep: bool) -> None:
        """Write what is left, and remove the files unless they are all that is left of the run."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=10)
        if not keep:
            shutil.rmtree(self._run / FOLDER, ignore_errors=True)

    def _see(self, benchmark: str, records: Sequence[Record]) -> None:
        """Take in a judged prompt; without records, the benchmark begins again."""
        if self._thread.is_alive():
            self._waiting.append((benchmark, records))

    def _work(self) -> None:
        with suppress(Exception):  # whatever goes wrong here is no fault of the run's
            is_last = False
            while not is_last:
                is_last = self._stopped.wait(EVERY)
                self._write_state()
                self._write_records()
        self._waiting.clear()

    def _write_state(self) -> None:
        progress = self._progress
        counts = {name: replace(count) for name, count in [*progress.benchmarks.items()]}
        state = LiveState(progress.phase, progress.tokens(), counts)
        if state != self._last:
            write_json(self._run / FOLDER / "state.json", _STATE.dump_python(state, mode="json"))
            self._last = state

    def _write_records(self) -> None:
        for benchmark, lines in _by_benchmark(self._taken()).items():
            path = records_file(self._run, benchmark)
            path.parent.mkdir(exist_ok=True)
            begins_again = [] in lines
            if begins_again:
                lines = lines[len(lines) - lines[::-1].index([]) :]
            with path.open("wb" if begins_again else "ab") as file:
                file.writelines(dump_line(self._shown(records)).encode() for records in lines)

    def _taken(self) -> Iterator[tuple[str, Sequence[Record]]]:
        while self._waiting:
            yield self._waiting.popleft()


def _by_benchmark(
    waiting: Iterable[tuple[str, Sequence[Record]]],
) -> dict[str, list[list[Record]]]:
    found: dict[str, list[list[Record]]] = {}
    for benchmark, records in waiting:
        found.setdefault(benchmark, []).append(list(records))
    return found
