"""The order of work: answer, judge, check, decide; in turns of the engines.

An answer is judged as soon as it exists, whatever its benchmark. Only decisions wait for the check
of the judges.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from refusal_checks.core.records import Record
from refusal_checks.engines.servers import Servers, Work
from refusal_checks.evaluation.aio import SingleFlight, gather_or_cancel
from refusal_checks.evaluation.decide import Findings
from refusal_checks.evaluation.gated import GatedBenchmark
from refusal_checks.evaluation.judge_checks import CheckFindings, JudgeChecks
from refusal_checks.evaluation.planning import Task
from refusal_checks.evaluation.recorder import Recorder
from refusal_checks.evaluation.stream import PromptStream
from refusal_checks.judges import panel
from refusal_checks.judges.trust.floors import JudgeCheck
from refusal_checks.models.candidates import Answer
from refusal_checks.models.names import CandidateModel

Decide = Callable[[GatedBenchmark, Sequence[Record], JudgeCheck | None], Findings]
"""Decides a complete benchmark, given the check of the judges."""


class _UnfitError(Exception):
    """Raised when judges may not decide; holds the reasons by benchmark."""

    def __init__(self, why: Mapping[str, str]) -> None:
        super().__init__(*why.values())
        self.why = why


class Pipeline:
    """Asks a run's candidate and judges, and decides each benchmark that is complete.

    A turn may be repeated after an engine was restarted: it then asks only for what the store
    lacks, and decides nothing twice.
    """

    def __init__(
        self,
        work: Task,
        candidate: CandidateModel,
        benchmarks: Mapping[str, GatedBenchmark],
        checks: JudgeChecks,
        decide: Decide,
        servers: Servers,
        recorder: Recorder,
        *,
        in_flight: int,
        allow_untrusted: bool,
    ) -> None:
        self._work = work
        self._candidate = candidate
        self._benchmarks = benchmarks
        self._checks = checks
        self._decide = decide
        self._servers = servers
        self._recorder = recorder
        self._in_flight = in_flight
        self._allow_untrusted = allow_untrusted
        self._answered: SingleFlight[list[Answer]] | None = None
        self._checked: CheckFindings | None = None
        # Why benchmarks get no verdicts; None until the judges were checked.
        self._distrust: Mapping[str, str] | None = None
        # Complete benchmarks that wait for the check.
        self._waiting: dict[str, Sequence[Record]] = {}

    def turns(self, count: int) -> Sequence[Work]:
        """The work of each turn of the engines: all in one turn, or answers and then verdicts."""
        if count == 1:
            return (self._judge,)
        return self._answer, self._judge

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
                    self._check(may_judge), self._evaluate(may_judge)
                )
                return
            except _UnfitError as fault:  # the others are judged
                for name, why in fault.why.items():
                    self._recorder.undecided(name, why)

    def _left(self) -> list[str]:
        return [name for name in self._work.plan if not self._recorder.is_done(name)]

    async def _evaluate(self, may_judge: asyncio.Event) -> None:
        await self._servers.ready([self._candidate])
        await self._stream(may_judge).run()

    def _stream(self, may_judge: asyncio.Event | None = None) -> PromptStream:
        left = {name: self._work.plan[name] for name in self._left()}
        return PromptStream(
            replace(self._work, plan=left),
            in_flight=self._in_flight,
            finished=self._complete,
            progress=self._recorder.progress,
            may_judge=may_judge,
            answered=self._answered,
        )

    async def _check(self, may_judge: asyncio.Event) -> None:
        """Check the judges once their engines are ready, unless they were checked before."""
        await self._servers.ready()
        may_judge.set()
        self._recorder.progress.phase = "checking the judge"
        if self._distrust is None:
            if not self._checks.why_idle:
                found = await self._checks.run(self._in_flight)
                # An engine that ended meanwhile has failed the check; it is made again.
                self._servers.require_running()
                if self._allow_untrusted:
                    found = replace(found, faults={})
                self._recorder.checked(found)
                self._checked = found
            self._distrust = self._why_unfit()
        self._recorder.progress.phase = ""
        unfit = {
            name: self._distrust[name]
            for name in self._left()
            if name in self._distrust
        }
        if unfit:
            raise _UnfitError(unfit)
        for name, records in self._waiting.items():
            self._publish(name, records)

    def _why_unfit(self) -> dict[str, str]:
        """Why the judges may not decide, by benchmark."""
        found = self._checked
        if found is None or self._allow_untrusted:
            return {}
        kinds = {name: self._benchmarks[name].kind for name in self._work.plan}
        unfit = {
            name: found.why_unfit(panel.way_of(kind))
            for name, kind in kinds.items()
            if kind.meets_canary
        }
        return {name: why for name, why in unfit.items() if why}

    def _complete(self, benchmark: str, records: Sequence[Record]) -> None:
        # It may lack something because an engine has ended: then it is no result.
        if any(record.is_lost for record in records):
            self._servers.require_running()
        if self._may_decide(benchmark):
            self._publish(benchmark, records)
        else:
            self._waiting[benchmark] = records

    def _may_decide(self, benchmark: str) -> bool:
        """True if no check tests its judges, or once they have passed theirs."""
        if not self._benchmarks[benchmark].kind.meets_canary:
            return True
        return self._distrust is not None and benchmark not in self._distrust

    def _publish(self, benchmark: str, records: Sequence[Record]) -> None:
        check = self._checked.result if self._checked else None
        found = self._decide(self._benchmarks[benchmark], records, check)
        self._recorder.decided(found)
