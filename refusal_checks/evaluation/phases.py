"""The work of a run, in turns of its engines; a turn can be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from refusal_checks.core.errors import first_of
from refusal_checks.core.records import Record
from refusal_checks.engines.servers import Work
from refusal_checks.evaluation.aio import SingleFlight, gather_or_cancel
from refusal_checks.evaluation.decider import Decider
from refusal_checks.evaluation.prepare import PreparedRun
from refusal_checks.evaluation.publisher import BenchmarkFiles, Publisher
from refusal_checks.evaluation.stream import Evaluation, Finished
from refusal_checks.evaluation.voting import UnreadableError
from refusal_checks.judges import panel
from refusal_checks.judges.judge import Judge
from refusal_checks.models.candidates import Answer
from refusal_checks.results.events import Progress


class _UnfitError(Exception):
    """Raised when judges are not trusted or cannot judge; holds the reasons by benchmark."""

    def __init__(self, why: Mapping[str, str]) -> None:
        super().__init__(*why.values())
        self.why = why


class Pipeline:
    """Asks a run's candidate and judges, and decides each benchmark that is complete.

    Work may be repeated after an engine was restarted: it then asks only for what the store lacks,
    and decides nothing twice.
    """

    def __init__(
        self,
        run: PreparedRun,
        progress: Progress,
        published: Callable[[tuple[str, ...]], None],
    ) -> None:
        self._run = run
        self._servers = run.servers
        self._progress = progress
        self._answered: SingleFlight[list[Answer]] | None = None
        # Why benchmarks get no verdicts; None until the judges were checked.
        self._distrust: Mapping[str, str] | None = None
        self._trusted = asyncio.Event()
        labels = run.inputs.labels
        self._decider = Decider(
            run.benchmarks,
            run.rules,
            run.earlier,
            labels,
            run.summary,
            run.redaction,
        )
        self._publisher = Publisher(
            run.benchmarks,
            run.gates,
            run.summary,
            BenchmarkFiles(run.folder, run.redaction, run.work.candidate.keys),
            level=run.rules.level,
            max_tokens=run.inputs.sampling.max_tokens,
            published=published,
        )

    def turns(self, count: int) -> Sequence[Work]:
        """The work of each turn of the engines: all in one turn, or answers and then verdicts."""
        if count == 1:
            return (self._judge,)
        return self._answer, self._judge

    async def _answer(self) -> None:
        await self._servers.ready()
        # Kept for the next turn, in which the candidate's engine is gone.
        self._answered = SingleFlight()
        await self._evaluation(lambda *_: None).answer()
        self._servers.require_running()

    async def _judge(self) -> None:
        """Evaluate everything that may be decided; only decisions wait for the judge's check."""
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
        """Leave benchmarks undecided for these reasons, and judge the others."""
        for name, why in unfit.items():
            self._leave_undecided(name, why)
        self._progress.leave_out(unfit.keys())
        await self._judge()

    def _leave_undecided(self, benchmark: str, why: str) -> None:
        outcomes = self._decider.undecided(benchmark, why)
        self._publisher.publish_outcomes(benchmark, outcomes)

    def _left_to(self, judge: Judge) -> list[str]:
        """The undecided benchmarks that depend on a judge's verdicts or on its check."""
        work = self._run.work
        names = {name for name, judges in work.judges.items() if judge in judges}
        return [
            name
            for name in work.plan
            if (name in names or self._check_of(name) in names)
            and not self._publisher.is_done(name)
        ]

    def _check_of(self, benchmark: str) -> str:
        """Name of the check of its judges; empty if there is none."""
        return panel.check_of(self._run.benchmarks[benchmark].kind)

    async def _require_trust(self, may_judge: asyncio.Event) -> None:
        """Check the judges once their engines are ready, unless they were checked before."""
        await self._servers.ready()
        may_judge.set()
        self._progress.phase = "checking the judge"
        if self._distrust is None:
            distrust: Mapping[str, str] = {}
            if not self._run.checks.why_idle:
                distrust = await self._check()
            # Only now: a check that an engine's end breaks off is made again.
            self._distrust = distrust
        self._progress.phase = ""
        unfit = {
            name: why
            for name, why in self._distrust.items()
            if not self._publisher.is_done(name)
        }
        if unfit:
            raise _UnfitError(unfit)
        self._trusted.set()

    async def _check(self) -> Mapping[str, str]:
        """Check the judges, publish the outcome; return why they may not decide, by benchmark."""
        run = self._run
        is_allowed = run.inputs.spec.trust.allow_untrusted_judge
        notes = None if run.redaction.is_on else run.summary
        check = await run.checks.run(
            run.in_flight(), run.rules.level, notes, self._given_up()
        )
        self._servers.require_running()
        faults = {} if is_allowed else run.checks.faults
        if faults:
            advice = [fault.advice for fault in faults.values()]
            run.summary.judge_error = "; ".join(advice)
            for fault in faults.values():
                if fault.is_public:
                    run.summary.unusable.append(fault.advice)
        elif check:
            run.summary.judge = run.redaction.check(check)
        if is_allowed or check is None:
            return {}
        unfit: dict[str, str] = {}
        for name in run.work.plan:
            kind = run.benchmarks[name].kind
            way = panel.way_of(kind)
            if not kind.meets_canary:
                continue
            if way in faults:
                unfit[name] = faults[way].advice
            elif not check.of(way).is_trusted:
                unfit[name] = check.of(way).distrust
        return unfit

    def _given_up(self) -> set[str]:
        """Judging methods whose gates are all decided: their judges gave no verdict."""
        done: set[str] = set()
        left: set[str] = set()
        for name, benchmark in self._run.benchmarks.items():
            way = panel.way_of(benchmark.kind)
            (done if self._publisher.is_done(name) else left).add(way)
        return done - left

    async def _evaluate(self, may_judge: asyncio.Event | None = None) -> None:
        """Evaluate the benchmarks that are not decided yet."""
        run = self._run
        await self._servers.ready([run.inputs.candidate])
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
            # It may lack something because an engine has ended: then it is no result.
            if any(record.is_lost for record in records):
                self._servers.require_running()
            finished(benchmark, records)

        left = {
            name: prompts
            for name, prompts in run.work.plan.items()
            if not self._publisher.is_done(name)
        }
        return Evaluation(
            replace(run.work, plan=left),
            in_flight=run.in_flight(),
            finished=complete,
            progress=self._progress,
            may_judge=may_judge,
            answered=self._answered,
        )

    async def _decide(self, benchmark: str, records: Sequence[Record]) -> None:
        """Decide once the judge is trusted, and publish the outcome."""
        if self._run.benchmarks[benchmark].kind.meets_canary:
            await self._trusted.wait()
        decided = self._decider.decide(benchmark, records)
        self._publisher.publish(benchmark, records, decided)
