"""The order of a run's work: answer, judge, check, decide.

An answer is judged as soon as it exists, whatever its benchmark, and a benchmark is decided as soon
as it is judged. Only two things wait: decisions for the check of the judges, and judges' engines
that do not fit beside the candidate's for their turn. Stages return what they find, and the
recorder writes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace

from refusal_checks.core.errors import EngineStartError, StoreError
from refusal_checks.core.records import Record
from refusal_checks.models.candidates import Answer
from refusal_checks.run.concurrency import (
    CancellableWork,
    SingleFlight,
    gather_or_cancel,
    rare_garbage_collection,
)
from refusal_checks.run.recorder import Recorder
from refusal_checks.run.reusable_answers import end_generations
from refusal_checks.run.run_session import RunSession
from refusal_checks.run.stages.check import CheckResult
from refusal_checks.run.stages.decide import decide_benchmark
from refusal_checks.run.start_report import report_start
from refusal_checks.run.stream import PromptStream
from refusal_checks.run.turns import EngineTurns
from refusal_checks.trust.validation_sets import has_check


class _UntrustedJudgesError(Exception):
    """Raised when judges may not decide; holds the reasons by benchmark."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__(*reasons.values())
        self.reasons = reasons


class Pipeline:
    """Asks a run's candidate and judges, and decides each benchmark once it is complete.

    One thread calls ``run``; any other may ``cancel``. If an engine ends, it is started again and
    the work of its turn is repeated: that asks only for what the store lacks, and decides nothing
    twice.
    """

    def __init__(self, session: RunSession, recorder: Recorder) -> None:
        self._session = session
        self._recorder = recorder
        self._turns = EngineTurns(session.servers, session.inputs.candidate, recorder)
        self._work = CancellableWork()
        # Of the candidate's turn: in the next one, its engine is gone.
        self._answered: SingleFlight[list[Answer]] | None = None
        self._checked: CheckResult | None = None  # None until the judges were checked
        # Complete benchmarks that wait for the check.
        self._waiting: dict[str, Sequence[Record]] = {}

    def run(self) -> None:
        """Evaluate everything. When this returns or raises, the run has ended and has a summary.

        Once engines have started, errors go into the summary.

        Raises:
            EngineStartError: an engine of the first turn did not start.
            RefusalChecksError: the run could not start for another reason.
            KeyboardInterrupt: the run was interrupted; what is done is decided and kept.
        """
        try:
            with rare_garbage_collection():
                report = report_start(self._session)
                self._recorder.begin(report, self._session.checks.why_idle)
                self._evaluate()
        finally:
            # Both steps are taken, even if one is interrupted. The engines stop first: only then
            # are their tokens counted in full.
            with ExitStack() as last_steps:
                last_steps.callback(self._finish)
                last_steps.callback(self._session.servers.close)

    def cancel(self) -> None:
        """Stop the evaluation and the engines from another thread; no further engine starts."""
        self._work.cancel()
        self._session.servers.close()

    def _evaluate(self) -> None:
        try:
            self._work.run(
                lambda: self._turns.do(answer=self._answer, judge=self._judge)
            )
        except EngineStartError as fault:
            if not self._turns.has_begun:
                raise
            # Of a later turn, or when it was started again: some gates may be decided.
            self._recorder.record_failure(fault)
        except KeyboardInterrupt:
            self._recorder.record_failure(asyncio.CancelledError())
            raise
        except BaseException as fault:
            self._recorder.record_failure(fault)

    def _finish(self) -> None:
        if self._recorder.is_complete and not self._recorder.summary.errors:
            # Only now: a run that is repeated because it failed still uses what it asked for.
            with suppress(StoreError):  # the run is over, whatever the store can keep
                end_generations(self._session.task)
        self._recorder.finish(self._turns.seconds)

    # The work of a turn

    async def _answer(self) -> None:
        self._answered = SingleFlight()
        await self._stream().answer()
        # Answers of an engine that died are lost, not invalid: they are asked for again.
        self._session.servers.require_running()

    async def _judge(self) -> None:
        """Judge everything while the judges are checked; decide what they may decide."""
        while True:
            may_judge = asyncio.Event()
            self._waiting.clear()
            try:
                await gather_or_cancel(
                    self._check(may_judge), self._stream(may_judge).run()
                )
                return
            except _UntrustedJudgesError as fault:
                # No more is asked for their benchmarks; the others begin again, from the store.
                for name, why in fault.reasons.items():
                    self._recorder.record_undecided(name, why)

    def _stream(self, may_judge: asyncio.Event | None = None) -> PromptStream:
        """The answers and verdicts of undecided benchmarks."""
        task = self._session.task
        return PromptStream(
            replace(task, plan={name: task.plan[name] for name in self._left()}),
            in_flight=self._session.in_flight(),
            judged=self._recorder.record_prompt,
            finished=self._complete,
            progress=self._recorder.progress,
            may_judge=may_judge,
            answered=self._answered,
        )

    def _left(self) -> list[str]:
        plan = self._session.task.plan
        return [name for name in plan if not self._recorder.is_done(name)]

    async def _check(self, may_judge: asyncio.Event) -> None:
        """Check the judges once their engines are ready, then decide what waited for the check."""
        progress, servers = self._recorder.progress, self._session.servers
        await servers.wait_until_ready()
        may_judge.set()
        progress.phase = "checking the judge"
        if self._checked is None:  # else an engine was started again since
            found = await self._session.checks.run(self._session.in_flight())
            # An engine that ended meanwhile has failed the check; it is made again.
            servers.require_running()
            self._recorder.record_check(found)
            self._checked = found
        progress.phase = ""
        untrusted = {}
        for name in self._left():
            why = self._checked.why_unfit(self._session.benchmarks[name].kind)
            if why:
                untrusted[name] = why
        if untrusted:
            raise _UntrustedJudgesError(untrusted)
        for name, records in self._waiting.items():
            self._decide(name, records)

    def _complete(self, name: str, records: Sequence[Record]) -> None:
        # If verdicts are missing because an engine has ended, do not decide by the rest.
        if any(record.is_lost for record in records):
            self._session.servers.require_running()
        kind, checked = self._session.benchmarks[name].kind, self._checked
        if has_check(kind) and (checked is None or checked.why_unfit(kind)):
            self._waiting[name] = records
        else:
            self._decide(name, records)

    def _decide(self, name: str, records: Sequence[Record]) -> None:
        found = decide_benchmark(
            self._session.benchmarks[name],
            records,
            self._session.inputs,
            self._session.earlier.get(name),
            self._checked.finished_check if self._checked else None,
        )
        self._recorder.record_findings(found)
