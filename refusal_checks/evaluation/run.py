"""Run one candidate: start engines, evaluate everything, write the summary."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from typing import Any

from refusal_checks.core.errors import StoreError
from refusal_checks.core.labelling import PEOPLE
from refusal_checks.core.records import Record
from refusal_checks.core.text import count
from refusal_checks.engines.servers import Work
from refusal_checks.evaluation import generations
from refusal_checks.evaluation.aio import gather_or_cancel
from refusal_checks.evaluation.decide import Evidence, Findings, decide
from refusal_checks.evaluation.gated import GatedBenchmark
from refusal_checks.evaluation.pipeline import Pipeline
from refusal_checks.evaluation.planning import Pending, pending
from refusal_checks.evaluation.provenance import add_effort
from refusal_checks.evaluation.recorder import Recorder
from refusal_checks.evaluation.run_session import RunSession
from refusal_checks.gates import power
from refusal_checks.judges.trust.floors import JudgeCheck
from refusal_checks.models.names import Model
from refusal_checks.results.events import Listener
from refusal_checks.results.run_folder import RunFolder

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

    def __init__(self, session: RunSession, listener: Listener) -> None:
        self._session = session
        self._work = session.work
        self._servers = session.servers
        self._benchmarks = session.benchmarks
        self._checks = session.checks
        self._inputs = session.inputs
        self.recorder = Recorder(
            RunFolder(session.folder),
            session.summary,
            session.inputs.redaction,
            session.benchmarks,
            session.inputs.gates,
            session.work.candidate.keys,
            listener,
        )
        self.recorder.progress.tokens = self._generated
        self._cancelled = self._finished = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._not_started: BaseException | None = None
        self._begun: float | None = None
        self._seconds: float | None = None
        self._ready_s: list[float] = []  # by turn of the engines

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

    def open(self) -> None:
        """Open the run's folder and place the engines needed for missing answers and verdicts."""
        recorder, plan, store = self.recorder, self._work.plan, self._work.store
        todo = pending(self._work)
        todos = [todo, *self._checks.pending()]
        if store.changed:
            recorder.note(
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
        recorder.say(f"{work}; run folder {recorder.folder.path}")
        gates = [gate for one in self._benchmarks.values() for gate in one.gates]
        weakest = power.line(gates, plan, self._inputs.rules.level)
        if weakest:
            recorder.say(weakest)
        models = self._needed(todos)
        placement = self._servers.place(models)
        if placement.places:
            recorder.say(f"placement {placement.kind}: {placement.why}")
        manifest = add_effort(
            self._session.summary.manifest, placement, self._work, todo, models
        )
        used = set(frozenset[str]().union(*(todo.reused for todo in todos)))
        if manifest.asked and manifest.asked.reused:
            used.add(self._work.candidate.name)
        recorder.begin(
            manifest,
            unverified=_reservation(used & self._session.unverified),
            judge_idle=self._checks.why_idle,
        )

    def _needed(self, todos: list[Pending]) -> list[Model]:
        """The models that will be asked; ``todos`` begins with the work on prompts."""
        models: list[Model] = []
        if todos[0].answers:
            models.append(self._inputs.candidate)
        asked = frozenset[str]().union(*(todo.judges for todo in todos))
        for judge in self._inputs.judges:
            if judge.name in asked:
                models.append(judge.model)
        return models

    async def _start_engines(self, turn: int = 0) -> None:
        progress = self.recorder.progress
        phase, begun = "starting the engines", time.monotonic()
        progress.phase = phase
        try:
            await asyncio.to_thread(self._servers.start, self.recorder.say, turn)
        finally:
            if progress.phase == phase:  # else the judge is being checked already
                progress.phase = ""
        self._ready_s.append(round(time.monotonic() - begun, 1))

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
            self.recorder.failed(asyncio.CancelledError())
            raise
        except BaseException as fault:
            if self._not_started:
                raise self._not_started from None
            self.recorder.failed(fault)

    async def _evaluate(self) -> None:
        self._loop, self._main = asyncio.get_running_loop(), asyncio.current_task()
        if self._cancelled:  # before there was a loop to cancel it in
            raise asyncio.CancelledError
        async with AsyncExitStack() as stack:
            for client in self._servers.clients:
                await stack.enter_async_context(client)
            try:
                await self._do_turns()
            except BaseException:
                self._servers.close()  # else a thread that starts them keeps waiting
                raise

    async def _do_turns(self) -> None:
        count = self._servers.placement.turns
        first, *others = self._pipeline().turns(count)
        try:
            await gather_or_cancel(self._start_first(), self._do_first(first))
            for turn, work in enumerate(others, 1):
                await self._start_engines(turn)
                await self._servers.guard(work, self._restarted)
        finally:
            if self._begun is not None:
                self._seconds = round(time.monotonic() - self._begun, 3)

    def _pipeline(self) -> Pipeline:
        inputs = self._inputs
        evidence = Evidence(
            inputs.rules,
            self._session.earlier,
            inputs.labels,
            by_people=inputs.spec.recording.labelled_by == PEOPLE,
            max_tokens=inputs.sampling.max_tokens,
            reasoning_end=self._session.summary.manifest.models.candidate.reasoning_end,
        )

        def decided(
            benchmark: GatedBenchmark,
            records: Sequence[Record],
            check: JudgeCheck | None,
        ) -> Findings:
            return decide(benchmark, inputs.redaction.judged(records), evidence, check)

        return Pipeline(
            self._work,
            inputs.candidate,
            self._benchmarks,
            self._checks,
            decided,
            self._servers,
            self.recorder,
            in_flight=self._session.in_flight(),
            allow_untrusted=inputs.spec.trust.allow_untrusted_judge,
        )

    async def _start_first(self) -> None:
        """Start the engines of the first turn; work waits for those that it needs."""
        try:
            await self._start_engines()
        except Exception as fault:
            self._not_started = fault
            raise

    async def _do_first(self, work: Work) -> None:
        await self._servers.ready([self._inputs.candidate])
        self._begun = time.monotonic()
        await self._servers.guard(work, self._restarted)

    def _restarted(self, line: str) -> None:
        self.recorder.say(line)
        self.recorder.note(line)

    def cancel(self) -> None:
        """Stop the evaluation and the engines from another thread; no further engine starts."""
        self._cancelled = True
        with suppress(RuntimeError):  # the loop may have ended by itself
            if self._loop is not None and self._main is not None:
                self._loop.call_soon_threadsafe(self._main.cancel)
        self.stop_engines()

    def stop_engines(self) -> None:
        """Stop the engines, including those that load early."""
        self._servers.close()

    def finish(self) -> None:
        """Stop the engines and write ``summary.json``; acts once."""
        if self._finished:
            return
        self._finished = True
        self._servers.close()
        if self.recorder.is_complete and not self.recorder.summary.errors:
            with suppress(StoreError):  # the run is over, whatever the store can keep
                generations.end(self._work)
        measured: dict[str, Any] = {"evaluation_s": self._seconds}
        engines = self.recorder.summary.manifest.engines
        if engines:
            ready = {"ready_s": tuple(self._ready_s)}
            measured["engines"] = engines.model_copy(update=ready)
        self.recorder.finish(self._servers.account() | measured)


def _reservation(reused: set[str]) -> str:
    """A reservation about what servers said too long ago; empty if it decides nothing."""
    if not reused:
        return ""
    names = " and ".join(sorted(reused))
    return (
        f"ask anew with --fresh: what {names} said earlier decides, and a URL does not say which "
        "weights it serves"
    )
