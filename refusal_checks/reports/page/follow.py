"""The page of runs in progress, rewritten every few seconds by a thread of its own."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path

from refusal_checks.core.errors import EvaluationError, reason
from refusal_checks.core.records import Record
from refusal_checks.core.text import count
from refusal_checks.gates.estimates import select
from refusal_checks.gates.gate import Gate
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.reports.page import page
from refusal_checks.reports.page.gate_rows import GateRow, rows, sections
from refusal_checks.reports.page.page import Report
from refusal_checks.results.events import Count, Event, Judged, Underway
from refusal_checks.results.run_folder import RunFolder, RunView

LOOK = 0.5  # seconds between two looks for the first answer
EVERY = 5.0  # seconds between two pages
SHARE = 0.02  # share of the time that may go into pages
RECENT = 50  # prompts of each run whose answers the page shows, the latest


class LivePage:
    """Keeps the page of runs up to date, from the first answer until it is stopped.

    An error here must not disturb the runs: it is reported once, and writing is tried again.
    """

    def __init__(
        self, runs: Sequence[Underway], path: Path, say: Callable[[str], None]
    ) -> None:
        self._path = path
        self._say = say
        self._runs = [_Run(number, run) for number, run in enumerate(runs)]
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="page", daemon=True)
        self._thread.start()

    def see(self, event: Event) -> None:
        """Note a judged prompt."""
        if isinstance(event, Judged):
            for run in self._runs:
                run.see(event)

    def stop(self) -> None:
        """Stop writing. Does nothing if called again."""
        self._stopped.set()
        self._thread.join(timeout=10)

    def _work(self) -> None:
        pause = LOOK
        announced: set[str] = set()
        while not self._stopped.wait(pause):
            if not any(run.has_answers for run in self._runs):
                continue
            busy = time.thread_time()
            line = f"open {self._path} in a browser to follow the run"
            try:
                self.write()
            except Exception as fault:
                line = (
                    f"{self._path}: not written while the run goes on: {reason(fault)}"
                )
            if line not in announced:
                announced.add(line)
                self._say(line)
            pause = max(EVERY, (time.thread_time() - busy) / SHARE)

    def write(self) -> None:
        reports = [run.report() for run in self._runs]
        title = ", ".join(
            f"{report.run.candidate}: {report.headline}" for report in reports
        )
        page.write(self._path, title, reports=reports, together=None, reload=EVERY)


class _Run:
    def __init__(self, number: int, run: Underway) -> None:
        self._number = number
        self._run = run
        self._judged: dict[str, list[Sequence[Record]]] = {}
        self._recent: deque[tuple[str, Sequence[Record]]] = deque(maxlen=RECENT)
        self._early: dict[str, tuple[int, Estimate | None]] = {}

    def see(self, event: Judged) -> None:
        """Note a judged prompt; without records, the benchmark begins again."""
        if event.run is not self._run:
            return
        if event.records:
            self._judged.setdefault(event.benchmark, []).append(event.records)
            self._recent.append((event.benchmark, event.records))
        else:
            self._judged[event.benchmark] = []

    @property
    def has_answers(self) -> bool:
        counts = [*self._run.progress.benchmarks.values()]
        return self._run.has_ended() or any(progress.answered for progress in counts)

    def report(self) -> Report:
        summary = self._run.summary
        redaction = self._run.redaction
        gates = self._run.gates
        # A copy, because another thread is still filling the summary.
        summary = replace(
            summary,
            benchmarks=dict(summary.benchmarks),
            verdicts=dict(summary.verdicts),
            errors=dict(summary.errors),
            notes=list(summary.notes),
        )
        summary = redaction.summary(summary)
        run = RunView(RunFolder(self._run.folder), summary, self._number)
        recent: dict[str, list[Record]] = {}
        for benchmark, records in reversed([*self._recent]):
            recent.setdefault(benchmark, []).extend(records)
        if self._run.has_ended():
            return page.report(run, recent)
        counts = {name: Count(planned=size) for name, size in self._run.planned.items()}
        counts |= {
            name: replace(progress)
            for name, progress in [*self._run.progress.benchmarks.items()]
        }
        planned = sum(progress.planned for progress in counts.values())
        judged = sum(
            progress.planned if progress.done else progress.judged
            for progress in counts.values()
        )
        undecided = [
            GateRow(run, gate.id, planned=gate, early=self._estimate(gate))
            for gate in gates
            if gate.id not in summary.verdicts and gate.id not in summary.errors
        ]
        decided = len(gates) - len(undecided)
        return Report(
            run=run,
            answer="going-on",
            headline=f"{judged / planned:.0%} judged" if planned else "Starting",
            reasons=[
                *filter(None, [self._run.progress.phase]),
                f"{judged:,} of {count(planned, 'prompt')} judged",
                f"{decided} of {count(len(gates), 'gate')} decided",
            ],
            sections=sections(rows(run, undecided)),
            payloads=page.payloads(run, recent),
            counts=counts,
        )

    def _estimate(self, gate: Gate) -> Estimate | None:
        """The figure so far, recomputed when more prompts are judged; None without any."""
        judged = self._judged.get(gate.benchmark, [])
        prompts, estimate = self._early.get(gate.id, (0, None))
        if len(judged) != prompts:
            records = list(chain.from_iterable([*judged]))
            estimate = None
            with suppress(EvaluationError):  # there is no valid verdict yet
                metric = METRICS[gate.metric]
                estimate = metric.estimate(select(gate, records), self._run.level)
            self._early[gate.id] = len(judged), estimate
        return estimate
