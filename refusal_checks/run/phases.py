"""The work of a run in the turns that its engines take; a turn can be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from functools import partial

from refusal_checks.core.errors import first_of
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Invalid, Reason
from refusal_checks.engines.servers import Work
from refusal_checks.gates.decide import Verdict
from refusal_checks.judges import kind_of
from refusal_checks.models.candidates import BufferedCandidate, Candidate
from refusal_checks.results.progress import Progress
from refusal_checks.run.aio import together
from refusal_checks.run.decide import Decider
from refusal_checks.run.evaluate import Evaluation, Finished, Judges, Plan, Task
from refusal_checks.run.prepare import Prepared
from refusal_checks.run.rationales import Afterwards, can_be_asked, judges_up


class _DistrustError(Exception):
    """The judge's verdicts decide nothing."""


_SERVER_FAULTS = (Reason.ENGINE_ERROR, Reason.JUDGE_ERROR)
"""Reasons for a missing answer or verdict if a server is gone."""


class Phases:
    """Asks a run's candidate and its judges, and decides what is complete.

    Work may be done again after an engine was restarted: it then asks for nothing that the store
    has, and decides nothing twice.
    """

    def __init__(self, run: Prepared, progress: Progress) -> None:
        self._run = run
        self._plan = run.parts.plan
        self._engines = run.parts.engines
        self._candidate: Candidate = run.parts.candidate
        self._progress = progress
        self._repeats: list[dict[str, Sequence[Record]]] = [{} for _ in run.parts.repeats]
        self._distrust: str | None = None
        self._trusted = asyncio.Event()
        self._decider = Decider(run)
        self._asking = asyncio.TaskGroup()

    def turns(self, count: int) -> Sequence[Work]:
        """The work of each turn of the engines: all in one, or first answers, then verdicts."""
        if count == 1:
            return (self._judge,)
        self._candidate = buffered = BufferedCandidate(self._candidate)
        return self._answer, partial(self._judge_buffered, buffered)

    async def _answer(self) -> None:
        await self._engines.ready()
        await self._evaluation(self._plan, self._run.parts.judges, lambda *_: None).answer()
        self._engines.require_running()

    async def _judge_buffered(self, candidate: BufferedCandidate) -> None:
        """The same as ``_judge``, with a candidate whose engine has stopped."""
        candidate.is_gone = True
        await self._judge()

    async def _judge(self) -> None:
        """Evaluate all that may be decided; the judge's check goes on beside it.

        The candidate answers as soon as its engine is ready, and nothing but decisions waits for
        the check.
        """
        may_judge = asyncio.Event()
        try:
            await together(self._require_trust(may_judge), self._evaluate_all(may_judge))
        except _DistrustError as fault:
            self._leave_undecided(str(fault))
            await self._evaluate_all()

    def _leave_undecided(self, why: str) -> None:
        """Publish that nothing is decided by judges of refusal."""
        names = [name for name in self._plan if self._needs_trust(name)]
        for name in names:
            self._decider.leave_undecided(name, why)
        self._progress.leave_out(names)

    def _needs_trust(self, benchmark: str) -> bool:
        return kind_of(self._run.options.questions.benchmarks[benchmark]).judges_refusal

    async def _evaluate_all(self, may_judge: asyncio.Event | None = None) -> None:
        """Evaluate what is not decided yet, with the judges' repeated verdicts first."""
        run = self._run
        await self._engines.ready([run.options.answering.model])
        for judges, seen in zip(run.parts.repeats, self._repeats, strict=True):
            await self._evaluate(judges, seen.keys(), seen.__setitem__, may_judge)
        if run.early:
            run.early.begin()
        try:
            async with asyncio.TaskGroup() as self._asking:
                await self._evaluate(run.parts.judges, (), self._decide, may_judge)
        except BaseExceptionGroup as faults:
            raise first_of(faults) from None

    async def _require_trust(self, may_judge: asyncio.Event) -> None:
        """Check the judge, once its engine is ready."""
        await self._engines.ready()
        may_judge.set()
        if self._distrust is None:
            self._distrust = await self._check()
        if self._distrust:
            raise _DistrustError(self._distrust)
        self._trusted.set()

    async def _check(self) -> str:
        """Why the judge's verdicts decide nothing; empty if they decide."""
        run = self._run
        if run.canary.why_idle:
            return ""
        self._progress.phase = "checking the judge"
        check = await run.canary.run(run.in_flight(), run.rules.level, redacted=run.options.redact)
        self._progress.phase = ""
        self._engines.require_running()
        self._decider.judge_check(check)
        return "" if check.is_trusted or run.options.trust.allow_untrusted else check.distrust

    async def _evaluate(
        self,
        judges: Judges,
        done: Collection[str],
        finished: Finished,
        may_judge: asyncio.Event | None,
    ) -> None:
        left = {
            name: prompts
            for name, prompts in self._plan.items()
            if name not in done and not self._decider.is_done(name)
        }
        await self._evaluation(left, judges, partial(self._complete, finished), may_judge).run()

    def _evaluation(
        self,
        plan: Plan,
        judges: Judges,
        finished: Finished,
        may_judge: asyncio.Event | None = None,
    ) -> Evaluation:
        run = self._run
        return Evaluation(
            Task(plan, self._candidate, judges, run.store),
            in_flight=run.in_flight(self._engines.placement.copies),
            finished=finished,
            enough=run.early.enough if run.early else None,
            progress=self._progress,
            may_judge=may_judge,
        )

    def _complete(self, finished: Finished, benchmark: str, records: Sequence[Record]) -> None:
        """Take a benchmark as complete unless it lacks something because an engine has ended."""
        judgements = (record.judgement for record in records)
        if any(isinstance(each, Invalid) and each.reason in _SERVER_FAULTS for each in judgements):
            self._engines.require_running()
        finished(benchmark, records)

    def _decide(self, benchmark: str, records: Sequence[Record]) -> None:
        waits = self._needs_trust(benchmark) and not self._trusted.is_set()
        if waits or self._asks_later(benchmark):
            self._asking.create_task(self._decide_later(benchmark, records))
        else:
            repeats = self._repeated(benchmark)
            decided = self._decider.decide(benchmark, records, repeats)
            self._decider.publish(benchmark, records, repeats, decided)

    async def _decide_later(self, benchmark: str, records: Sequence[Record]) -> None:
        """Decide once the judge is trusted; it then gives its reasons for what is shown."""
        if self._needs_trust(benchmark):
            await self._trusted.wait()
        run, repeats, sampled = self._run, self._repeated(benchmark), None
        decided = self._decider.decide(benchmark, records, repeats)
        if self._asks_later(benchmark):
            effort, judges = run.summary.manifest.asked, run.options.judging.judges
            asked = effort.judges if effort else ()
            up = judges_up(asked, judges, are_live=self._engines.are_live)
            asking = Afterwards(run.parts.judges[benchmark], run.store, run.in_flight(), up)
            verdicts = [each for each in decided.values() if isinstance(each, Verdict)]
            shown = [answer for verdict in verdicts for answer in verdict.shown]
            records, sampled = await asking.benchmark(
                benchmark, records, shown, redacted=run.options.redact
            )
            decided = {
                gate: each.with_rationales(records) if isinstance(each, Verdict) else each
                for gate, each in decided.items()
            }
        self._decider.publish(benchmark, records, repeats, decided, sampled)

    def _repeated(self, benchmark: str) -> list[Sequence[Record]]:
        return [seen[benchmark] for seen in self._repeats]

    def _asks_later(self, benchmark: str) -> bool:
        return can_be_asked(self._run.parts.judges[benchmark], redacted=self._run.options.redact)
