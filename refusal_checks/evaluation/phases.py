"""The work of a run in the turns that its engines take; a turn can be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from refusal_checks.core.errors import first_of
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Invalid, Reason
from refusal_checks.engines.servers import Work
from refusal_checks.evaluation.aio import SingleFlight, gather_or_cancel
from refusal_checks.evaluation.decider import Decider
from refusal_checks.evaluation.prepare import PreparedRun
from refusal_checks.evaluation.rationales import (
    RationaleCollector,
    explaining_judge,
    judges_up,
)
from refusal_checks.evaluation.stream import Evaluation, Finished, UnreadableError
from refusal_checks.gates.offenders import Offender
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges import kind_of, panel
from refusal_checks.judges.judge import Judge, JudgeKind
from refusal_checks.models.candidates import Answer
from refusal_checks.results.events import Progress


class _UnfitError(Exception):
    """Judges are not trusted, or cannot judge; why, by benchmark."""

    def __init__(self, why: Mapping[str, str]) -> None:
        super().__init__(*why.values())
        self.why = why


_SERVER_FAULTS = (Reason.ENGINE_ERROR, Reason.JUDGE_ERROR)
"""Reasons for a missing answer or verdict if a server is gone."""


class Pipeline:
    """Asks a run's candidate and its judges, and decides what is complete.

    Work may be done again after an engine was restarted: it then asks for nothing that the store
    has, and decides nothing twice.
    """

    def __init__(
        self,
        run: PreparedRun,
        progress: Progress,
        published: Callable[[tuple[str, ...]], None] = lambda gates: None,
    ) -> None:
        self._run = run
        self._engines = run.parts.engines
        self._answered: SingleFlight[list[Answer]] | None = None
        self._progress = progress
        # why benchmarks get no verdicts; None until the judges were checked
        self._distrust: Mapping[str, str] | None = None
        self._trusted = asyncio.Event()
        self._decider = Decider(run, published)

    def turns(self, count: int) -> Sequence[Work]:
        """The work of each turn of the engines: all in one, or first answers, then verdicts."""
        if count == 1:
            return (self._judge,)
        return self._answer, self._judge

    async def _answer(self) -> None:
        await self._engines.ready()
        # Kept for the next turn, in which the candidate's engine is gone.
        self._answered = SingleFlight()
        await self._evaluation(lambda *_: None).answer()
        self._engines.require_running()

    async def _judge(self) -> None:
        """Evaluate all that may be decided; nothing but decisions waits for the judge's check."""
        may_judge = asyncio.Event()
        try:
            await gather_or_cancel(
                self._require_trust(may_judge), self._evaluate(may_judge)
            )
        except _UnfitError as fault:
            await self._without(fault.why)
        except UnreadableError as fault:
            names = self._left_to(fault.judge)
            if not names:
                raise
            self._run.summary.unusable.append(str(fault))
            await self._without(dict.fromkeys(names, str(fault)))

    async def _without(self, unfit: Mapping[str, str]) -> None:
        """Leave benchmarks undecided, for these reasons, and judge the others."""
        for name, why in unfit.items():
            self._decider.leave_undecided(name, why)
        self._progress.leave_out(unfit.keys())
        await self._judge()

    def _left_to(self, judge: Judge) -> list[str]:
        """The undecided benchmarks that a judge gives verdicts on, or that it is checked for."""
        parts = self._run.parts
        names = {name for name, judges in parts.judges.items() if judge in judges}
        return [
            name
            for name in parts.plan
            if (name in names or self._check_of(name) in names)
            and not self._decider.is_done(name)
        ]

    def _kind(self, benchmark: str) -> JudgeKind:
        return kind_of(self._run.config.benchmarks[benchmark])

    def _check_of(self, benchmark: str) -> str:
        """The name of what checks its judges; empty if nothing does."""
        return panel.check_of(self._kind(benchmark))

    async def _require_trust(self, may_judge: asyncio.Event) -> None:
        """Check the judges once their engines are ready, unless it is known what they may decide.

        Those of ratings come first: no gate waits for what is found, and one that gives no rating
        is not asked further.
        """
        run = self._run
        await self._engines.ready()
        may_judge.set()
        self._progress.phase = "checking the judge"
        await self._rate()
        if self._distrust is None:
            self._distrust = {} if run.canary.why_idle else await self._check()
        self._progress.phase = ""
        left = {
            n: why for n, why in self._distrust.items() if not self._decider.is_done(n)
        }
        if left:
            raise _UnfitError(left)
        self._trusted.set()

    async def _rate(self) -> None:
        """Note what the judges of ratings make of answers whose order is known."""
        run, rated = self._run, self._run.summary.rated
        left = [
            name
            for name in run.summary.untested_scales
            if name not in rated and not self._decider.is_done(name)
        ]
        found = await run.gradient.run(set(map(self._check_of, left)), run.in_flight())
        self._engines.require_running()
        for name in left:
            if said := found.get(self._check_of(name)):
                rated[name] = said

    async def _check(self) -> Mapping[str, str]:
        """Check the judges and publish the outcome; why they may not decide, by benchmark."""
        run, allowed = self._run, self._run.config.trust.allow_untrusted
        told = None if run.config.redact else run.summary
        check = await run.canary.run(run.in_flight(), run.rules.level, told)
        self._engines.require_running()
        faults = {} if allowed else run.canary.faults
        if faults:
            run.summary.judge_error = "; ".join(
                fault.advice for fault in faults.values()
            )
            run.summary.unusable += [
                each.advice for each in faults.values() if each.is_public
            ]
        else:
            run.summary.judge = run.redaction.check(check)
        unfit: dict[str, str] = {}
        for name in run.parts.plan:
            if allowed or not self._kind(name).meets_canary:
                continue
            way = panel.way_of(self._kind(name))
            if way in faults:
                unfit[name] = faults[way].advice
            elif not check.of(way).is_trusted:
                unfit[name] = check.of(way).distrust
        return unfit

    async def _evaluate(self, may_judge: asyncio.Event | None = None) -> None:
        """Evaluate what is not decided yet."""
        run = self._run
        await self._engines.ready([run.config.answering.model])
        if run.early:
            run.early.begin()
        try:
            async with asyncio.TaskGroup() as group:

                def decide(benchmark: str, records: Sequence[Record]) -> None:
                    group.create_task(self._decide(benchmark, records))

                await self._evaluation(decide, may_judge).run()
        except BaseExceptionGroup as faults:
            raise first_of(faults) from None

    def _evaluation(
        self, finished: Finished, may_judge: asyncio.Event | None = None
    ) -> Evaluation:
        """The evaluation of benchmarks that are not decided."""
        run = self._run

        def complete(benchmark: str, records: Sequence[Record]) -> None:
            """Take it as complete unless it lacks something because an engine has ended."""
            found = (record.judgement for record in records)
            if any(
                isinstance(each, Invalid) and each.reason in _SERVER_FAULTS
                for each in found
            ):
                self._engines.require_running()
            finished(benchmark, records)

        left = {
            name: prompts
            for name, prompts in run.parts.plan.items()
            if not self._decider.is_done(name)
        }
        return Evaluation(
            run.task(left),
            in_flight=run.in_flight(self._engines.placement.copies),
            finished=complete,
            enough=run.early.enough if run.early else None,
            progress=self._progress,
            may_judge=may_judge,
            answered=self._answered,
        )

    async def _decide(self, benchmark: str, records: Sequence[Record]) -> None:
        """Decide once the judge is trusted; it then gives its reasons for what is shown."""
        if self._kind(benchmark).meets_canary:
            await self._trusted.wait()
        run = self._run
        decided = self._decider.decide(benchmark, records)
        judges = run.parts.judges[benchmark]
        if explaining_judge(judges) and not run.config.redact:
            effort = run.summary.manifest.asked
            up = judges_up(
                effort.judges if effort else (),
                run.config.judging.judges,
                are_live=self._engines.are_live,
            )
            collector = RationaleCollector(judges, run.store, run.in_flight(), up)
            shown: list[Offender] = []
            for verdict in decided.values():
                if isinstance(verdict, Verdict):
                    shown += verdict.shown
            records = await collector.explained(records, shown)
            decided = {
                gate: verdict.with_rationales(records)
                if isinstance(verdict, Verdict)
                else verdict
                for gate, verdict in decided.items()
            }
        self._decider.publish(benchmark, records, decided)
