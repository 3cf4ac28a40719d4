"""Run one candidate: start engines, evaluate everything, write the summary."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from datetime import UTC, datetime

from pydantic_core import to_jsonable_python

from refusal_checks.core.errors import DataError, StoreError, reason
from refusal_checks.core.records import Record
from refusal_checks.core.text import count
from refusal_checks.engines.servers import Work
from refusal_checks.evaluation import generations
from refusal_checks.evaluation.aio import gather_or_cancel
from refusal_checks.evaluation.phases import Pipeline
from refusal_checks.evaluation.planning import Pending, pending
from refusal_checks.evaluation.prepare import PreparedRun
from refusal_checks.evaluation.provenance import with_effort
from refusal_checks.gates import power
from refusal_checks.models.names import Model
from refusal_checks.reports.wording.release import in_words
from refusal_checks.results.events import (
    Decided,
    Ended,
    Judged,
    Listener,
    Notice,
    Progress,
    Underway,
)
from refusal_checks.results.journal import Journal
from refusal_checks.results.manifest import EnginesUsed
from refusal_checks.results.run_folder import BEGUN, RunFolder

_RARELY = (20_000, 20, 100)
"""Thresholds of Python's garbage collector during runs. A run holds hundreds of thousands of values
without cycles; with the usual thresholds, the search for cycles takes a third of its time."""


@contextmanager
def _collecting_rarely() -> Iterator[None]:
    usual = gc.get_threshold()
    gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


class Run:
    """Evaluates the benchmarks of the selected gates and sends events to a listener.

    One thread calls ``work``; any other may ``cancel``.
    """

    def __init__(self, prepared: PreparedRun, listener: Listener) -> None:
        self._run = prepared
        self._listener = listener
        self.inputs = prepared.inputs
        self.summary = prepared.summary
        self.folder = RunFolder(prepared.folder)
        self._journal = Journal(self.folder)
        self.progress = Progress(
            tokens=self._generated, judged_so_far=self._judged, say=self._say
        )
        self._servers = prepared.servers
        self._cancelled = self._finished = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._not_started: BaseException | None = None
        self._begun: float | None = None
        self.underway = Underway(
            folder=prepared.folder,
            summary=prepared.summary,
            progress=self.progress,
            gates=tuple(prepared.gates),
        )

    def work(self) -> None:
        """Evaluate everything. When this returns or raises, the run has ended and has a summary.

        Raises:
            EngineStartError: an engine did not start.
            RefusalChecksError: the run could not start for another reason.
            KeyboardInterrupt: the run was interrupted.
        """
        try:
            with _collecting_rarely():
                self.open()
                self.evaluate()
        finally:
            # Both steps are taken, even if one is interrupted.
            with ExitStack() as last_steps:
                last_steps.callback(self.finish)
                last_steps.callback(self.stop_engines)

    def _say(self, text: str) -> None:
        self._listener(Notice(text))

    def _judged(self, benchmark: str, records: Sequence[Record]) -> None:
        shown = self._run.redaction.records(records)
        self._journal.add(benchmark, shown)
        self._listener(Judged(self.underway, benchmark, shown))

    def _published(self, gates: tuple[str, ...]) -> None:
        summary, redaction = self.summary, self._run.redaction
        self._journal.publish(lambda: redaction.summary(summary), summary.benchmarks)
        self._listener(Decided(self.underway, gates))

    def open(self) -> None:
        """Open the run's folder and place the engines needed for missing answers and verdicts."""
        run, plan = self._run, self._run.work.plan
        store = run.work.store
        todo = pending(run.work)
        todos = [todo, *run.checks.pending()]
        if store.changed:
            self.summary.note(
                f"the store {store.path}: {store.changed} of its rows are not as they were written "
                "and were asked for again: damaged, or edited by hand"
            )
        work = "no gate is selected: only the judge is checked"
        if plan:
            prompts = count(sum(map(len, plan.values())), "prompt")
            work = (
                f"{prompts} of {', '.join(plan)}: {count(todo.answers, 'answer')} to generate, "
                f"{count(todo.verdicts, 'verdict')} to ask for at most"
            )
        self._say(f"{work}; run folder {self.folder.path}")
        gates = [gate for one in run.benchmarks.values() for gate in one.gates]
        weakest = power.line(gates, plan, run.rules.level)
        if weakest:
            self._say(weakest)
        models = self._needed(todos)
        placement = self._servers.place(models)
        if placement.places:
            self._say(f"placement {placement.kind}: {placement.why}")
        placed = self.summary.manifest.extended(placement=to_jsonable_python(placement))
        self.summary.manifest = with_effort(placed, run.work, todo, models)
        self.summary.unverified = self._unverified(todos)
        self.summary.judge_idle = run.checks.why_idle
        begun = self.folder.begin(run.redaction.manifest(self.summary.manifest))
        self.summary.files[BEGUN] = begun

    def _unverified(self, todos: Sequence[Pending]) -> str:
        """A reservation about what servers said too long ago; empty if it decides nothing."""
        used = set(frozenset[str]().union(*(todo.reused for todo in todos)))
        asked = self.summary.manifest.asked
        if asked and asked.reused:
            used.add(self._run.work.candidate.name)
        names = " and ".join(sorted(used & self._run.unverified))
        if not names:
            return ""
        return f"what {names} said earlier decides, and a URL does not say which weights it serves"

    def _needed(self, todos: list[Pending]) -> list[Model]:
        """The models that will be asked; ``todos`` begins with the work on prompts."""
        models: list[Model] = []
        if todos[0].answers:
            models.append(self.inputs.candidate)
        asked = frozenset[str]().union(*(todo.judges for todo in todos))
        for judge in self.inputs.judges:
            if judge.name in asked:
                models.append(judge.model)
        return models

    async def _start_engines(self, turn: int = 0) -> None:
        phase, begun = "starting the engines", time.monotonic()
        self.progress.phase = phase
        try:
            await asyncio.to_thread(self._servers.start, self._say, turn)
        finally:
            if self.progress.phase == phase:  # else the judge is being checked already
                self.progress.phase = ""
        used = self.summary.manifest.engines or EnginesUsed()
        ready = (*used.ready_s, round(time.monotonic() - begun, 1))
        used = used.model_copy(update={"ready_s": ready})
        self.summary.manifest = self.summary.manifest.extended(engines=used)

    def _generated(self) -> int:
        tokens = self._servers.account().get("tokens", {})
        return sum(role["output"] for role in tokens.values())

    def evaluate(self) -> None:
        """Start the engines, evaluate and decide everything; later errors go into the summary.

        If an engine does not start, none is left running.

        Raises:
            EngineStartError: an engine did not start.
            KeyboardInterrupt: the run was interrupted; what is done is decided and kept.
        """
        try:
            asyncio.run(self._evaluate())
        except KeyboardInterrupt:
            self.stop_engines()
            self._fail_unless_complete(asyncio.CancelledError())
            raise
        except BaseException as fault:
            if self._not_started:
                self.stop_engines()
                raise self._not_started from None
            self._fail_unless_complete(fault)

    async def _evaluate(self) -> None:
        self._loop, self._main = asyncio.get_running_loop(), asyncio.current_task()
        if self._cancelled:  # before there was a loop to cancel it in
            raise asyncio.CancelledError
        phases = Pipeline(self._run, self.progress, self._published)
        async with AsyncExitStack() as stack:
            for client in self._servers.clients:
                await stack.enter_async_context(client)
            first, *others = phases.turns(self._servers.placement.turns)
            try:
                await gather_or_cancel(self._start_first(), self._do_first(first))
                for turn, work in enumerate(others, 1):
                    await self._start_engines(turn)
                    await self._servers.guard(work, self._restarted)
            except asyncio.CancelledError:
                self._servers.close()  # else a thread that starts them keeps waiting
                raise
            finally:
                if self._begun is not None:
                    seconds = round(time.monotonic() - self._begun, 3)
                    self.summary.manifest = self.summary.manifest.extended(
                        evaluation_s=seconds
                    )

    async def _start_first(self) -> None:
        """Start the engines of the first turn; work waits for those that it needs."""
        try:
            await self._start_engines()
        except asyncio.CancelledError:
            self._servers.close()
            raise
        except Exception as fault:
            self._not_started = fault
            raise

    async def _do_first(self, work: Work) -> None:
        await self._servers.ready([self.inputs.candidate])
        self._begun = time.monotonic()
        await self._servers.guard(work, self._restarted)

    def _restarted(self, line: str) -> None:
        self._say(line)
        self.summary.note(line)

    def _fail_unless_complete(self, fault: BaseException) -> None:
        if not self._run.is_complete:  # it may be interrupted as soon as all is known
            self.fail(fault)

    def fail(self, fault: BaseException) -> None:
        """Note why the evaluation ended early."""
        self.summary.failure = self._run.redaction.reason(fault)

    def cancel(self) -> None:
        """Stop the evaluation and the engines from another thread; no further engine starts."""
        self._cancelled = True
        with suppress(RuntimeError):  # the loop may have ended by itself
            if self._loop is not None and self._main is not None:
                self._loop.call_soon_threadsafe(self._main.cancel)
        self.stop_engines()

    def abandon(self) -> None:
        """Close what was opened for a run that will not begin."""
        self._servers.close()
        self._run.work.store.close()

    def stop_engines(self) -> None:
        """Stop the engines, including those that load early."""
        self._servers.close()

    def finish(self) -> None:
        """Stop the engines and write ``summary.json``; acts once."""
        if self._finished:
            return
        self._finished = True
        self._servers.close()
        if self._run.is_complete and not self.summary.errors:
            with suppress(StoreError):  # the run is over, whatever the store can keep
                generations.end(self._run.work)
        self._run.work.store.close()
        self._journal.close()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        account = self._servers.account()
        manifest = self.summary.manifest.extended(**account, finished=now)
        self.summary.manifest = self._run.redaction.manifest(manifest)
        self._fail_unless_ended()
        self._keep_partial()
        try:
            summary = self._run.redaction.summary(self.summary)
            self.folder.write_summary(summary, in_words(summary))
        except OSError as fault:
            self.summary.note(f"no summary was written: {reason(fault)}")
        self._listener(Ended(self.underway))

    def _keep_partial(self) -> None:
        """Keep what a run that ended early has judged of benchmarks that are not complete."""
        if not self.summary.failure:
            return
        try:
            self.folder.add_partial(self.summary)
        except (OSError, DataError) as fault:
            self.summary.note(f"partial records were not kept: {reason(fault)}")

    def _fail_unless_ended(self) -> None:
        if not self.summary.failure:
            self._fail_unless_complete(asyncio.CancelledError())
