"""Trust in judges: a run's check on the canary, its calibration, and how calibrations are made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from refusal_checks.benchmarks import discover
from refusal_checks.core.errors import CalibrationError
from refusal_checks.core.records import Record
from refusal_checks.core.store import MEMORY, Store
from refusal_checks.core.verdicts import Invalid, Judgement, Reason
from refusal_checks.engines.pool import Engines
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.rates import HumanRates
from refusal_checks.judges import cascade, kind_of
from refusal_checks.judges.base import Judge, reasoned
from refusal_checks.judges.panel import Way
from refusal_checks.judges.trust import canary
from refusal_checks.judges.trust.calibration import JudgeIdentity, joined, require_judge
from refusal_checks.judges.trust.canary import JudgeCheck, JudgeFloors
from refusal_checks.judges.trust.correction import require_information
from refusal_checks.judges.trust.label_files import LabelFile, Scale, replayed
from refusal_checks.judges.trust.measured import MeasuredJudge, compared
from refusal_checks.models.candidates import Candidate
from refusal_checks.models.recordings.replay import Recording, ReplayCandidate
from refusal_checks.run.assembly import convert, judge_panels, pool_settings
from refusal_checks.run.evaluate import (
    Evaluation,
    Judges,
    Pending,
    Plan,
    Task,
    pending,
    prompts_at_once,
)
from refusal_checks.run.options.command_line import Options
from refusal_checks.run.options.judge import Trust
from refusal_checks.run.rationales import Afterwards


class Canary:
    """Checks a run's judges of refusal, who decide by majority, on the canary.

    Args:
        judges: the run's; those under ``canary.NAME`` are checked.
    """

    def __init__(self, options: Options, judges: Judges, store: Store) -> None:
        self._options = options
        panel = judges.get(canary.NAME, ())
        self._task = Task(
            {canary.NAME: canary.plan()}, canary.candidate(), {canary.NAME: panel}, store
        )
        self.name = ", ".join(judge.name for judge in panel)
        self.floors: JudgeFloors | None = None
        if any(judge.identity is not None for judge in panel):
            self.floors = options.trust.floors

    @property
    def why_idle(self) -> str:
        """Why there is nothing to check; empty if there is."""
        if self.floors:
            return ""
        if not self._options.trust.floors:
            return "the judge was not checked: no threshold file has a [judge] table"
        if self.name:
            return f"judge {self.name} was not checked: it follows rules and asks no model"
        return "no gate of this run has a judge of refusal"

    def pending(self) -> Pending:
        """The verdicts that the store lacks."""
        if not self.floors:
            return Pending(0, 0)
        return pending(self._task)

    async def run(self) -> JudgeCheck:
        """Compare the judge's figures with the floors; its server must be up.

        Raises:
            EndpointError: the judge's server rejects every request.
        """
        assert self.floors, "there is something to check"
        todo, start = self.pending(), perf_counter()
        records: list[Record] = []

        def finished(name: str, judged: Sequence[Record]) -> None:
            records.extend(judged)

        in_flight = prompts_at_once(self._options)
        await Evaluation(self._task, in_flight=in_flight, finished=finished).run()
        panel = self._task.judges[canary.NAME]
        if any(map(reasoned, panel)) and not self._options.redact:
            asking = Afterwards(panel, self._task.store, in_flight, todo.judges)
            records = await _explained(asking, records)
        result = canary.measure(records, self._options.confidence)
        checks = canary.checked(self.floors, result)
        return JudgeCheck(self.name, canary.digest(), checks, todo.verdicts, perf_counter() - start)


async def _explained(asking: Afterwards, records: Sequence[Record]) -> list[Record]:
    """The records, those of mistakes with the judge's reasons."""
    wrong = {each.id for each in canary.measure(records).mistakes}

    async def one(record: Record) -> Record:
        mistaken = record.prompt.id in wrong
        return await asking.record(record, costly=False) if mistaken else record

    return await asyncio.gather(*map(one, records))


def identify(judge: Judge, options: Options) -> JudgeIdentity:
    """A judge as calibrations identify it; one without a model by its name and rules."""
    name = judge.name
    if name == "labels" and "label" in options.replay.columns:
        name = f"labels:{options.replay.columns['label']}"
    if judge.name == "labels" and (meanings := options.replay.labels):
        name += f" ({', '.join(f'{label}={meanings[label]}' for label in sorted(meanings))})"
    return JudgeIdentity(
        name=name,
        identity=judge.identity or name,
        prompt_sha256=judge.prompt_hash,
        rationales="offenders" if reasoned(judge) else "all",
    )


def identify_panel(panel: Sequence[Judge], options: Options) -> JudgeIdentity:
    """Judges that decide together, as calibrations identify them."""
    found = joined([identify(judge, options) for judge in panel])
    formed = cascade.of(panel)
    return (
        found.model_copy(update={"identity": f"{found.identity}+{formed.key}"}) if formed else found
    )


def human_rates(options: Options, gates: Sequence[Gate], judges: Judges) -> HumanRates:
    """The run's calibration, checked against the run; labels are found once there are answers.

    Raises:
        CalibrationError: a gate needs a calibration and there is none; or it is of another judge,
            of a judge without information, or of other answers and a gate forbids that.
    """
    trust, corrected = options.trust, [gate for gate in gates if gate.use == "corrected"]
    known, path = trust.calibration, trust.calibration_file
    if (known or trust.labels) and options.stop_early:
        raise CalibrationError("--calibration, --human-labels: leave out --stop-early: "
                               "they need whole benchmarks")  # fmt: skip
    candidate = candidate_name(options)
    rates = HumanRates(known, candidate, level=options.confidence)
    if known is None or path is None:
        for gate in corrected:
            raise CalibrationError(
                f'{_where(gate)}: give --calibration FILE: use = "corrected" needs it'
            )
        return rates
    for gate in corrected:
        if not kind_of(options.benchmarks[gate.benchmark]).judges_refusal:
            raise CalibrationError(
                f'{_where(gate)}: remove use = "corrected": only judges of refusal can be '
                "calibrated"
            )
    for name in dict.fromkeys(gate.benchmark for gate in gates):
        if kind_of(options.benchmarks[name]).judges_refusal:
            require_judge(path, known, identify_panel(judges[name], options))
    require_information(known.errors, options.confidence)
    for gate in corrected:
        require_information(known.errors_on(gate.benchmark), options.confidence)
        others = known.foreign(candidate, gate.benchmark)
        if others and not gate.allow_transferred:
            raise CalibrationError(
                f"{_where(gate)}: calibrate on answers of {candidate} to {gate.benchmark} "
                "(refusal-checks calibrate --benchmark), give --human-labels, or write "
                f"allow_transferred = true: {path} is from {others}, on which a judge errs "
                "differently"
            )
    return rates


def require_own_labels(
    options: Options, plan: Plan, candidate: Candidate, store: Store, run: str
) -> None:
    """Check human labels against the run's prompts, and the answers that the store has.

    Args:
        run: id of this run.

    Raises:
        CalibrationError: labels are of other benchmarks, of prompts that the run does not have, or
            of answers that it cannot have.
        StoreError: the store cannot be read.
    """
    labels = options.trust.labels
    if labels is None:
        return
    this = f"run {run} of {options.candidate.name}"
    if labels.draws and not any(draw.benchmark in plan for draw in labels.draws):
        named = ", ".join(dict.fromkeys(draw.benchmark for draw in labels.draws))
        raise CalibrationError(
            f"{labels.name}: select gates of {named}, or leave out --human-labels: the labels are "
            f"of {named}, and this run evaluates {', '.join(plan)}"
        )
    labels.require_prompts([prompt for prompts in plan.values() for prompt in prompts], this)
    for name, prompts in plan.items():
        known = candidate.known(prompts, store)
        keys = [(prompt, each) for prompt in prompts for each in enumerate(candidate.keys(prompt))]
        records = [
            Record(prompt, sample, known[key], Invalid(Reason.NO_LABEL))
            for prompt, (sample, key) in keys
            if key in known
        ]
        lost = labels.unmatched(name, records)
        others = [row for row in lost if row.draw and row.draw.candidate != options.candidate.name]
        if len(lost) > len(keys) - len(records) or others:
            labels.require_none(lost, this)


def provenance(trust: Trust) -> dict[str, Any]:
    """The manifest's entries on the judge's calibration and human labels; JSON-like."""
    known, labels = trust.calibration, trust.labels
    return {
        "calibration": known.model_dump(mode="json") if known else None,
        "human_labels": {
            "file": labels.name,
            "labels": len(labels.rows),
            "draws": tuple(map(str, labels.draws)),
        }
        if labels
        else None,
    }


def candidate_name(options: Options) -> str:
    """The candidate as calibrations name it."""
    return replayed(options.candidate.name)


def _where(gate: Gate) -> str:
    return f"{gate.source}: {gate.id}"


def measure(
    files: Sequence[LabelFile],
    options: Options,
    scale: Scale,
    folder: Path,
    say: Callable[[str], None],
) -> list[MeasuredJudge]:
    """Measure the judges that the options name, each alone and, if several, together.

    Args:
        folder: where engines write their logs.
        say: shows one line to the user.

    Raises:
        UserError: a judge cannot be used, or a human label is unknown.
        EngineStartError, EngineDiedError, EndpointError: a judge's server is not there.
    """
    labelled = [(file, answer) for file in files for answer in file.answers]
    for file, answer in labelled:
        scale.human(file, answer)  # an unknown label ends this before an engine starts
    plan = {
        file.candidate: [answer.as_prompt(file.candidate) for answer in file.answers]
        for file in files
    }
    judging = RecordedJudging(options, scale.name, plan, _candidate(files), folder, say)
    by_candidate = judging.run()
    records = [record for file in files for record in by_candidate[file.candidate]]
    panel = next(iter(judging.judges.values()))
    parts = [identify(judge, options) for judge in panel]
    votes = {part: [_vote(record, part.name) for record in records] for part in parts}
    if len(parts) > 1:
        votes[identify_panel(panel, options)] = [record.judgement for record in records]
    return [
        MeasuredJudge(
            judge,
            tuple(
                compared(file, answer, judgement, scale)
                for (file, answer), judgement in zip(labelled, judgements, strict=True)
            ),
        )
        for judge, judgements in votes.items()
    ]


def _candidate(files: Iterable[LabelFile]) -> ReplayCandidate:
    answers = {
        answer.as_prompt(file.candidate).id: (answer.completion,)
        for file in files
        for answer in file.answers
    }
    return ReplayCandidate("recorded answers", Recording(Path(), answers, {}, {}))


def _vote(record: Record, judge: str) -> Judgement:
    """One judge's judgement; a judge who was alone left no vote."""
    votes = {vote.judge: vote.judgement for vote in record.votes}
    return votes.get(judge, record.judgement)


class Round(NamedTuple):
    """What one panel said of recorded answers, and its cost.

    Attributes:
        records: by the plan's names, in the plan's order.
        cost: the fields of ``usage.Usage``.
        seconds: without the start of engines.
    """

    records: dict[str, Sequence[Record]]
    cost: dict[str, int]
    seconds: float


class RecordedJudging:
    """Run judges over recorded answers.

    Args:
        kind: the way of judging, a module of ``judges.kinds``.
        candidate: gives the recorded answers.
        folder: where engines write their logs.
        say: shows one line to the user.

    Raises:
        ModelError: a judge, or its prompt, cannot be used; nothing has been started then.
    """

    def __init__(
        self,
        options: Options,
        kind: str,
        plan: Plan,
        candidate: Candidate,
        folder: Path,
        say: Callable[[str], None],
    ) -> None:
        self._options = options
        self._plan = plan
        self._candidate = candidate
        self._say = say
        convert(options, say)
        self._engines = Engines(pool_settings(options), folder)
        guides = {each.judge: each.category_guide for each in discover().values()}
        way = Way(kind, category_guide=guides.get(kind))
        self.judges: Judges = judge_panels(options, dict.fromkeys(plan, way), self._engines, say)

    def run(self) -> dict[str, Sequence[Record]]:
        """The records by the plan's names, in the plan's order.

        Raises:
            EngineStartError, EngineDiedError, EndpointError: a judge's server is not there.
        """
        (only,) = self.rounds([self.judges])
        return only.records

    def rounds(self, several: Sequence[Judges]) -> list[Round]:
        """The same answers read by several panels, one after the other, on the same engines.

        Args:
            several: panels by the plan's names; their models are those of the options.

        Raises:
            EngineStartError, EngineDiedError, EndpointError: a judge's server is not there.
        """
        options = self._options
        with Store(MEMORY if options.fresh else options.store) as store:
            todos = [pending(Task(self._plan, self._candidate, each, store)) for each in several]
            names = frozenset[str]().union(*(todo.judges for todo in todos))
            asked = [judge.model for judge in options.judges if judge.name in names]
            self._say(f"{sum(todo.verdicts for todo in todos)} verdicts to ask for at most")
            try:
                self._engines.place(asked)
                self._engines.start(self._say)
                return asyncio.run(self._evaluate(store, several))
            finally:
                self._engines.stop()

    async def _evaluate(self, store: Store, several: Sequence[Judges]) -> list[Round]:
        async with AsyncExitStack() as stack:
            for client in self._engines.clients:
                await stack.enter_async_context(client)
            return [await self._round(Task(self._plan, self._candidate, each, store))
                    for each in several]  # fmt: skip

    async def _round(self, task: Task) -> Round:
        records: dict[str, Sequence[Record]] = {}

        def evaluation() -> Coroutine[None, None, None]:
            return Evaluation(
                task, in_flight=prompts_at_once(self._options), finished=records.__setitem__
            ).run()

        before, start = self._usage(), perf_counter()
        await self._engines.guard(evaluation, self._say)
        seconds, after = perf_counter() - start, self._usage()
        cost = {name: after[name] - before.get(name, 0) for name in after}
        return Round({name: records[name] for name in self._plan}, cost, seconds)

    def _usage(self) -> dict[str, int]:
        return dict(self._engines.account()["tokens"].get("judge", {}))
