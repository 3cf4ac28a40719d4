"""The order of work of a run: answer, judge, check, decide; in turns of its engines.

An answer is judged as soon as it exists, whatever its benchmark. Only decisions wait for the check
of the judges. Stages return what they find, and the recorder writes it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import replace

from refusal_checks.core.errors import EngineStartError, StoreError
from refusal_checks.core.records import Record
from refusal_checks.engines.servers import Work
from refusal_checks.models.candidates import Answer
from refusal_checks.run import panels
from refusal_checks.run.concurrency import (
    SingleFlight,
    gather_or_cancel,
    rare_garbage_collection,
)
from refusal_checks.run.recorder import Recorder
from refusal_checks.run.reusable_answers import end_generations
from refusal_checks.run.run_session import RunSession
from refusal_checks.run.stages.check import CheckResult
from refusal_checks.run.stages.decide import decide
from refusal_checks.run.start_report import report_start
from refusal_checks.run.stream import PromptStream
from refusal_checks.trust.check_sets import has_check


class _UnfitError(Exception):
    """Raised when judges may not decide; holds the reasons by benchmark."""

    def __init__(self, why: Mapping[str, str]) -> None:
        super().__init__(*why.values())
        self.why = why


class Pipeline:
    """Asks a run's candidate and judges, and decides each benchmark that is complete.

    One thread calls ``work``; any other may ``cancel``. A turn may be repeated after an engine was
    restarted: it then asks only for what the store lacks, and decides nothing twice.
    """

    def __init__(self, session: RunSession, recorder: Recorder) -> None:
        self._session = session
        self._inputs = session.inputs
        self._work = session.work
        self._servers = session.servers
        self._benchmarks = session.benchmarks
        self._recorder = recorder
        recorder.progress.tokens = self._generated
        self._cancelled = False
        self._begun: float | None = None
        self._seconds: float | None = None
        self._ready_s: list[float] = []  # by turn of the engines
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._answered: SingleFlight[list[Answer]] | None = None
        self._checked: CheckResult | None = None
        # Why benchmarks get no verdicts; None until the judges were checked.
        self._distrust: Mapping[str, str] | None = None
        # Complete benchmarks that wait for the check.
        self._waiting: dict[str, Sequence[Record]] = {}

    # From the first step to the last

    def work(self) -> None:
        """Evaluate everything. When this returns or raises, the run has ended and has a summary.

        Once engines have started, errors go into the summary.

        Raises:
            EngineStartError: an engine of the first turn did not start.
            RefusalChecksError: the run could not start for another reason.
            KeyboardInterrupt: the run was interrupted; what is done is decided and kept.
        """
        try:
            with rare_garbage_collection():
                self._recorder.begin(
                    report_start(self._session), self._session.checks.why_idle
                )
                self._evaluate()
        finally:
            # Both steps are taken, even if one is interrupted.
            with ExitStack() as last_steps:
                last_steps.callback(self._finish)
                last_steps.callback(self._servers.close)

    def _evaluate(self) -> None:
        try:
            asyncio.run(self._ask())
        except EngineStartError as fault:
            if not self._ready_s:
                raise
            # Of a later turn, or when it was started again: some gates may be decided.
            self._recorder.record_failure(fault)
        except KeyboardInterrupt:
            self._recorder.record_failure(asyncio.CancelledError())
            raise
        except BaseException as fault:
            self._recorder.record_failure(fault)

    def _finish(self) -> None:
        """Write the summary; the engines have stopped."""
        if self._recorder.is_complete and not self._recorder.summary.errors:
            with suppress(StoreError):  # the run is over, whatever the store can keep
                end_generations(self._work)
        self._recorder.finish(self._servers.account(), self._ready_s, self._seconds)

    def cancel(self) -> None:
        """Stop the evaluation and the engines from another thread; no further engine starts."""
        self._cancelled = True
        with suppress(RuntimeError):  # the loop may have ended by itself
            if self._loop is not None and self._main is not None:
                self._loop.call_soon_threadsafe(self._main.cancel)
        self._servers.close()

    def _generated(self) -> int:
        tokens = self._servers.account().get("tokens", {})
        return sum(role["output"] for role in tokens.values())

    # Turns of the engines

    async def _ask(self) -> None:
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
        """Answer and judge in one turn of the engines, or answer first and then judge."""
        try:
            if self._servers.placement.turns == 1:
                await gather_or_cancel(self._start(0), self._do_first(self._judge))
            else:
                await gather_or_cancel(self._start(0), self._do_first(self._answer))
                await self._start(1)
                await self._servers.run_with_restart(self._judge, self._restarted)
        finally:
            if self._begun is not None:
                self._seconds = round(time.monotonic() - self._begun, 3)

    async def _start(self, turn: int) -> None:
        """Start the engines of a turn; work waits for those that it needs."""
        progress = self._recorder.progress
        phase, begun = "starting the engines", time.monotonic()
        progress.phase = phase
        try:
            await asyncio.to_thread(self._servers.start, self._recorder.say, turn)
        finally:
            if progress.phase == phase:  # else the judge is being checked already
                progress.phase = ""
        self._ready_s.append(round(time.monotonic() - begun, 1))

    async def _do_first(self, work: Work) -> None:
        await self._servers.ready([self._inputs.candidate])
        self._begun = time.monotonic()
        await self._servers.run_with_restart(work, self._restarted)

    def _restarted(self, line: str) -> None:
        self._recorder.say(line)
        self._recorder.note(line)

    async def _answer(self) -> None:
        await self._servers.ready()
        # Kept for the next turn, in which the candidate's engine is gone.
        self._answered = SingleFlight()
        await self._stream().answer()
        self._servers.require_running()

    async def _judge(self) -> None:
        """Evaluate everything that may be decided."""
        while True:
            may_judge = asyncio.Event()
            self._waiting.clear()
            try:
                await gather_or_cancel(
                    self._check(may_judge), self._judge_all(may_judge)
                )
                return
            except _UnfitError as fault:  # the others are judged
                for name, why in fault.why.items():
                    self._recorder.record_undecided(name, why)

    async def _judge_all(self, may_judge: asyncio.Event) -> None:
        await self._servers.ready([self._inputs.candidate])
        await self._stream(may_judge).run()

    def _stream(self, may_judge: asyncio.Event | None = None) -> PromptStream:
        """The answers and verdicts of what is not decided yet."""
        return PromptStream(
            replace(
                self._work, plan={name: self._work.plan[name] for name in self._left()}
            ),
            in_flight=self._session.in_flight(),
            finished=self._complete,
            progress=self._recorder.progress,
            may_judge=may_judge,
            answered=self._answered,
        )

    def _left(self) -> list[str]:
        return [name for name in self._work.plan if not self._recorder.is_done(name)]

    # The check of the judges, and decisions

    async def _check(self, may_judge: asyncio.Event) -> None:
        """Check the judges once their engines are ready, unless they were checked before."""
        recorder, checks = self._recorder, self._session.checks
        await self._servers.ready()
        may_judge.set()
        recorder.progress.phase = "checking the judge"
        if self._distrust is None:
            if not checks.why_idle:
                found = await checks.run(self._session.in_flight())
                # An engine that ended meanwhile has failed the check; it is made again.
                self._servers.require_running()
                if self._inputs.spec.trust.allow_untrusted_judge:
                    found = replace(found, faults={})
                recorder.record_check(found)
                self._checked = found
            self._distrust = self._why_unfit()
        recorder.progress.phase = ""
        left = self._left()
        unfit = {name: why for name, why in self._distrust.items() if name in left}
        if unfit:
            raise _UnfitError(unfit)
        for name, records in self._waiting.items():
            self._decide(name, records)

    def _why_unfit(self) -> dict[str, str]:
        """Why judges may not decide, by benchmark."""
        found = self._checked
        if found is None or self._inputs.spec.trust.allow_untrusted_judge:
            return {}
        unfit = {}
        for name, benchmark in self._benchmarks.items():
            why = found.why_unfit(panels.method_of(benchmark.kind))
            if why and has_check(benchmark.kind):
                unfit[name] = why
        return unfit

    def _complete(self, benchmark: str, records: Sequence[Record]) -> None:
        # If verdicts are missing because an engine has ended, do not decide by the rest.
        if any(record.is_lost for record in records):
            self._servers.require_running()
        if self._may_decide(benchmark):
            self._decide(benchmark, records)
        else:
            self._waiting[benchmark] = records

    def _may_decide(self, benchmark: str) -> bool:
        """True if no check tests its judges, or once they have passed theirs."""
        if not has_check(self._benchmarks[benchmark].kind):
            return True
        return self._distrust is not None and benchmark not in self._distrust

    def _decide(self, name: str, records: Sequence[Record]) -> None:
        check = self._checked.result if self._checked else None
        benchmark, earlier = self._benchmarks[name], self._session.earlier.get(name)
        found = decide(benchmark, records, self._inputs, earlier, check)
        self._recorder.record_findings(found)
