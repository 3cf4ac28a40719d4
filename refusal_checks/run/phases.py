"""The work of a run in the turns that its engines take; each turn's can be done again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from refusal_checks.core.records import Record
from refusal_checks.core.store import Store
from refusal_checks.core.verdicts import Invalid, Reason
from refusal_checks.engines.servers import Work
from refusal_checks.gates.early_stopping import EarlyStopping
from refusal_checks.judges import kind_of
from refusal_checks.models.candidates import BufferedCandidate, Candidate
from refusal_checks.results.progress import Progress
from refusal_checks.run.assembly import Parts
from refusal_checks.run.concurrency import prompts_at_once
from refusal_checks.run.evaluate import Evaluation
from refusal_checks.run.judge_check import Canary
from refusal_checks.run.options.command_line import Options
from refusal_checks.run.plan import Judges, Plan
from refusal_checks.run.publisher import Publisher

_SERVER_FAULTS = (Reason.ENGINE_ERROR, Reason.JUDGE_ERROR)
"""Why there is no answer, or no verdict, where a server is gone."""


class Phases:
    """What a run asks of its candidate and its judges.

    Work that is done again, because an engine had to be started again, asks for nothing that the
    store has, and leaves alone what has been decided.

    Args:
        early: stops benchmarks; None lets each go to its end.
    """

    def __init__(
        self,
        options: Options,
        parts: Parts,
        store: Store,
        canary: Canary,
        early: EarlyStopping | None,
        decisions: Publisher,
        progress: Progress,
    ) -> None:
        self._options = options
        self._parts = parts
        self._candidate: Candidate = parts.candidate
        self._store = store
        self._canary = canary
        self._early = early
        self._decisions = decisions
        self._progress = progress
        self._repeats: list[dict[str, Sequence[Record]]] = [{} for _ in parts.repeats]
        self._distrust: str | None = None
        self._decided: set[str] = set()

    def turns(self, count: int) -> Sequence[Work]:
        """The work of each turn: all in one, or the answers first and then the rest."""
        if count == 1:
            return (self._judge,)
        self._candidate = collecting = BufferedCandidate(self._parts.candidate)
        return self._answer, partial(self._judge_collected, collecting)

    async def _answer(self) -> None:
        """Ask the candidate for all that is missing."""
        await self._evaluation(self._parts.plan, self._parts.judges, lambda *_: None).answer()
        self._parts.engines.require_running()

    async def _judge_collected(self, collecting: BufferedCandidate) -> None:
        """The same as ``_judge``, with a candidate that is gone."""
        collecting.is_gone = True
        await self._judge()

    async def _judge(self) -> None:
        """Check the judge, then evaluate all that may be decided."""
        if self._distrust is None:
            self._distrust = await self._check()
        for name in self._parts.plan:
            if self._distrust and kind_of(self._options.benchmarks[name]).judges_refusal:
                self._decisions.undecided(name, self._distrust)
                self._decided.add(name)
        for again, seen in zip(self._parts.repeats, self._repeats, strict=True):
            await self._evaluate(again, seen.keys(), seen.__setitem__)
        if self._early:
            self._early.begin()
        await self._evaluate(self._parts.judges, (), self._finished)

    async def _check(self) -> str:
        """Why the judge's verdicts decide nothing; empty where they do."""
        if self._canary.why_idle:
            return ""
        self._progress.phase = "checking the judge"
        check = await self._canary.run()
        self._progress.phase = ""
        self._parts.engines.require_running()
        self._decisions.judge_checked(check)
        decides = check.is_trusted or self._options.trust.allow_untrusted
        return "" if decides else check.distrust

    async def _evaluate(
        self,
        judges: Judges,
        done: Collection[str],
        finished: Callable[[str, Sequence[Record]], None],
    ) -> None:
        """Evaluate what is neither decided nor done."""
        skipped = {*done, *self._decided}
        plan = {name: found for name, found in self._parts.plan.items() if name not in skipped}
        await self._evaluation(plan, judges, partial(self._complete, finished)).run()

    def _evaluation(
        self, plan: Plan, judges: Judges, finished: Callable[[str, Sequence[Record]], None]
    ) -> Evaluation:
        return Evaluation(
            plan,
            self._candidate,
            judges,
            self._store,
            in_flight=prompts_at_once(self._options, self._parts.engines.placement.copies),
            finished=finished,
            enough=self._early.enough if self._early else None,
            progress=self._progress,
        )

    def _complete(
        self,
        finished: Callable[[str, Sequence[Record]], None],
        benchmark: str,
        records: Sequence[Record],
    ) -> None:
        """Take a benchmark as complete unless it lacks something because an engine has ended."""
        said = (record.judgement for record in records)
        if any(isinstance(it, Invalid) and it.reason in _SERVER_FAULTS for it in said):
            self._parts.engines.require_running()
        finished(benchmark, records)

    def _finished(self, benchmark: str, records: Sequence[Record]) -> None:
        repeats = [seen[benchmark] for seen in self._repeats]
        self._decisions.finished(benchmark, records, repeats)
        self._decided.add(benchmark)
