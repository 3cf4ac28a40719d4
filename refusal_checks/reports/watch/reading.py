"""A run as its folder shows it while it goes on; reads files only, and asks the run nothing."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

import psutil

from refusal_checks.core.errors import DataError
from refusal_checks.core.records import Record
from refusal_checks.core.text import redacted
from refusal_checks.gates.gate import Gate
from refusal_checks.results import live, redact
from refusal_checks.results.live import LivePlan
from refusal_checks.results.outbox import Board, Published
from refusal_checks.results.progress import Count
from refusal_checks.results.redact import RedactedFolder
from refusal_checks.results.run_folder import RunFolder, read_line
from refusal_checks.results.summary import RunSummary

Status = Literal["starting", "running", "ended", "stopped", "lost"]
"""``stopped`` has a summary that says why it ended early; ``lost`` has none, and no process."""


class LiveRun:
    """One run's folder, read again with each ``refresh``.

    Args:
        redact: show no texts, whatever the run itself shows.

    Attributes:
        records: the judged answers so far, by benchmark.
    """

    def __init__(self, path: Path, redact: bool = False) -> None:
        self.path = path
        self._redact = redact
        self.plan: LivePlan | None = None
        self.summary: RunSummary | None = None
        self.records: dict[str, list[Record]] = {}
        self._places: dict[str, int] = {}
        self._whole: set[str] = set()
        self._outcomes: dict[str, Mapping[str, Published]] = {}

    def refresh(self) -> Iterator[tuple[str, list[Record]]]:
        """Read what is new; yields the answers to each newly judged prompt, by benchmark."""
        self.plan = self.plan or live.read_plan(self.path)
        if self.summary is None and (self.path / "summary.json").exists():
            with suppress(DataError):
                self.summary = self._folder.summary()
        for name in self._benchmarks:
            for answers in self._new(name):
                self.records.setdefault(name, []).extend(answers)
                yield name, answers

    @property
    def status(self) -> Status:
        """Whether the run goes on, as far as its folder and its process tell."""
        if self.summary:
            return "stopped" if self.summary.failure else "ended"
        if not self._is_alive():
            return "lost"
        return "running" if self.plan else "starting"

    @property
    def redacted(self) -> bool:
        """True if no texts are shown."""
        if self._redact:
            return True
        if self.plan:
            return self.plan.redacted
        return self.summary is not None and self.summary.manifest.redacted

    def said(self, why: str) -> str:
        """A fault as it may be shown: a server's error may repeat a text."""
        has_texts = self._redact and not (self.plan and self.plan.redacted)
        return redacted(why) if has_texts else why

    @property
    def phase(self) -> str:
        """The current step in a few words."""
        return live.read_state(self.path).phase if self.status == "running" else ""

    @property
    def gates(self) -> tuple[Gate, ...]:
        """The gates of the run; without its plan, those with a verdict."""
        planned = self.plan.gates if self.plan else ()
        if self.summary is None or self.summary.failure:
            return planned
        decided = tuple(each.gate for each in self.summary.verdicts.values())
        return decided + tuple(gate for gate in planned if gate.id in self.summary.errors)

    def published(self, gate: Gate) -> Published | None:
        """The outcome of a gate, None until its benchmark is complete."""
        if gate.benchmark not in self._outcomes:
            with suppress(OSError, ValueError):
                if found := Board(self.path).outcomes(gate.benchmark):
                    self._outcomes[gate.benchmark] = found
        return self._outcomes.get(gate.benchmark, {}).get(gate.id)

    def counts(self) -> dict[str, Count]:
        """How far each benchmark is."""
        if self.summary and not self.summary.failure:
            return {
                name: Count(each.planned, each.prompts, each.prompts, each.answers, done=True)
                for name, each in self.summary.benchmarks.items()
            }
        planned = self.plan.benchmarks if self.plan else {}
        known = live.read_state(self.path).benchmarks
        return {name: Count(planned=size) for name, size in planned.items()} | dict(known)

    @property
    def _folder(self) -> RunFolder:
        return RedactedFolder(self.path) if self._redact else RunFolder(self.path)

    @property
    def _benchmarks(self) -> list[str]:
        found = list(self.plan.benchmarks if self.plan else {})
        ended = self.summary.benchmarks if self.summary else {}
        return found + [name for name in ended if name not in found]

    def _new(self, benchmark: str) -> Iterator[list[Record]]:
        """The answers to each prompt that was judged since the last look."""
        path = live.records_file(self.path, benchmark)
        whole = self.path / "records" / path.name
        if benchmark in self._whole:
            return
        if whole.exists() and (self.summary or not path.exists()):
            yield from self._rest(benchmark, whole)
        else:
            yield from self._added(benchmark, path)

    def _rest(self, benchmark: str, path: Path) -> Iterator[list[Record]]:
        """The answers of a complete benchmark to the prompts that were not yet read."""
        self._whole.add(benchmark)
        known = {record.prompt.id for record in self.records.get(benchmark, ())}
        with suppress(OSError), path.open("rb") as file:
            for line in file:
                with suppress(DataError):
                    answers = self._read(line, path)
                    if answers and answers[0].prompt.id not in known:
                        yield answers

    def _added(self, benchmark: str, path: Path) -> Iterator[list[Record]]:
        """The answers that were added to the file of a benchmark that goes on."""
        with suppress(OSError), path.open("rb") as file:
            place = self._places.get(benchmark, 0)
            if file.seek(0, 2) < place:  # the benchmark began again
                self.records[benchmark], place = [], 0
            file.seek(place)
            added = file.read()
            lines = added[: added.rfind(b"\n") + 1].splitlines(keepends=True)
            for line in lines:
                place += len(line)
                with suppress(DataError):
                    yield self._read(line, path)
            self._places[benchmark] = place

    def _read(self, line: bytes, path: Path) -> list[Record]:
        """The answers to a prompt, without texts if none are shown."""
        answers = read_line(line, str(path))
        return [redact.record(each) if self._redact else each for each in answers]

    def _is_alive(self) -> bool:
        """True if the process that owns the run exists, or runs on another machine."""
        if self.plan and self.plan.host != socket.gethostname():
            return True
        named = re.match(r"\d{8}-\d{6}-(\d+)", self.path.name)
        number = self.plan.process if self.plan else int(named[1]) if named else 0
        with suppress(psutil.Error, OSError, ValueError):
            return psutil.Process(number).create_time() <= self.path.stat().st_ctime + 1
        return False
