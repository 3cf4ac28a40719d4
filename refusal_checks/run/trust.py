"""Trust in judges: a run's check on the canary, its calibration, and how calibrations are made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from refusal_checks.benchmarks import Benchmark, discover
from refusal_checks.core.errors import CalibrationError
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.settings import Limits
from refusal_checks.core.store import Store
from refusal_checks.core.verdicts import Invalid, Judgement, Reason
from refusal_checks.engines.placement import PlacementRequest
from refusal_checks.engines.pool import Engines
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.rates import Evidence
from refusal_checks.judges import cascade, kind_of
from refusal_checks.judges.base import Judge
from refusal_checks.judges.panel import Way
from refusal_checks.judges.trust import canary
from refusal_checks.judges.trust.calibration import JudgeIdentity, joined, require_judge
from refusal_checks.judges.trust.canary import JudgeCheck, JudgeFloors
from refusal_checks.judges.trust.correction import require_information
from refusal_checks.judges.trust.label_files import LabelFile, Scale, replayed
from refusal_checks.judges.trust.labels import prompt_keys
from refusal_checks.judges.trust.measured import MeasuredJudge, judged
from refusal_checks.models.candidates import Candidate
from refusal_checks.models.recordings.replay import Recording, ReplayCandidate, ReplayOptions
from refusal_checks.models.spec import Replay
from refusal_checks.results.outbox import Board
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
from refusal_checks.run.options.judge import Trust
from refusal_checks.run.options.models import Answering, Judging
from refusal_checks.run.rationales import Afterwards

if TYPE_CHECKING:
    from refusal_checks.judges.trust.labels import HumanLabels


class Canary:
    """Checks a run's judges of refusal, who decide by majority, on the canary.

    Args:
        panel: the judges to check.
        floors: of their figures; None checks nothing.
    """

    def __init__(self, panel: tuple[Judge, ...], floors: JudgeFloors | None, store: Store) -> None:
        self.name = ", ".join(judge.name for judge in panel)
        self.floors = floors if any(judge.identity is not None for judge in panel) else None
        self._is_wanted = floors is not None
        self._task = Task(
            {canary.NAME: canary.plan()}, canary.candidate(), {canary.NAME: panel}, store
        )

    @property
    def why_idle(self) -> str:
        """Why there is nothing to check; empty if there is."""
        if self.floors:
            return ""
        if not self._is_wanted:
            return "the judge was not checked: no threshold file has a [judge] table"
        if self.name:
            return f"judge {self.name} was not checked: it follows rules and asks no model"
        return "no gate of this run has a judge of refusal"

    def pending(self) -> Pending:
        """The verdicts that the store lacks."""
        return pending(self._task) if self.floors else Pending(0, 0)

    async def run(self, in_flight: int, level: float, *, redacted: bool) -> JudgeCheck:
        """Compare the judge's figures with the floors; its server must be up.

        Args:
            level: confidence level of the figures.
            redacted: no text is shown, so no reasons are asked for.
        """
        assert self.floors, "there is something to check"
        todo, start = self.pending(), perf_counter()
        records: list[Record] = []
        await Evaluation(
            self._task, in_flight=in_flight, finished=lambda _, judged: records.extend(judged)
        ).run()
        panel = self._task.judges[canary.NAME]
        if any(judge.reasoned for judge in panel) and not redacted:
            asking = Afterwards(panel, self._task.store, in_flight, todo.judges)
            records = await _explained(asking, records)
        checks = canary.checked(self.floors, records, level)
        return JudgeCheck(self.name, canary.digest(), checks, todo.verdicts, perf_counter() - start)


async def _explained(asking: Afterwards, records: Sequence[Record]) -> list[Record]:
    wrong = {each.id for each in canary.mistakes(records)}

    async def one(record: Record) -> Record:
        mistaken = record.prompt.id in wrong
        return await asking.record(record, costly=False) if mistaken else record

    return await asyncio.gather(*map(one, records))


def identify(judge: Judge, reading: ReplayOptions) -> JudgeIdentity:
    """A judge as calibrations identify it; one without a model by its name and rules."""
    name = judge.name
    if judge.name == "labels":
        name += f":{reading.columns['label']}" if "label" in reading.columns else ""
        meanings = [f"{label}={reading.labels[label]}" for label in sorted(reading.labels)]
        name += f" ({', '.join(meanings)})" if meanings else ""
    return JudgeIdentity(
        name=name,
        identity=judge.identity or name,
        prompt_sha256=judge.prompt_hash,
        rationales="offenders" if judge.reasoned else "all",
    )


def identify_panel(panel: Sequence[Judge], reading: ReplayOptions) -> JudgeIdentity:
    """Judges that decide together, as calibrations identify them."""
    found = joined([identify(judge, reading) for judge in panel])
    formed = cascade.of(panel)
    update = {"identity": f"{found.identity}+{formed.key}"} if formed else {}
    return found.model_copy(update=update)


def known_evidence(
    trust: Trust,
    gates: Sequence[Gate],
    judges: Judges,
    benchmarks: Mapping[str, Benchmark],
    plan: Plan,
    answering: Answering,
    level: float,
) -> Evidence:
    """The run's calibration, checked against the run; labels are found once there are answers."""
    known, path = trust.calibration, trust.calibration_file
    candidate = replayed(answering.model.name)
    rates = Evidence(known, candidate)
    corrected = {f"{gate.source}: {gate.id}": gate for gate in gates if gate.use == "corrected"}
    if known is None or path is None:
        for where in corrected:
            raise CalibrationError(f'{where}: give --calibration FILE: use = "corrected" needs it')
        return rates
    names = dict.fromkeys(gate.benchmark for gate in gates)
    of_refusal = [name for name in names if kind_of(benchmarks[name]).judges_refusal]
    for where, gate in corrected.items():
        if gate.benchmark not in of_refusal:
            raise CalibrationError(
                f'{where}: remove use = "corrected": only judges of refusal can be calibrated'
            )
    for name in of_refusal:
        require_judge(path, known, identify_panel(judges[name], answering.replay))
    require_information(known.errors, level)
    for where, gate in corrected.items():
        prompts = filter(gate.looks_at, plan.get(gate.benchmark, ())) if gate.group else None
        of_gate = gate.benchmark, None if prompts is None else prompt_keys(prompts)
        try:
            require_information(known.errors_on(*of_gate), level)
        except CalibrationError as fault:
            raise CalibrationError(f"{where}: {fault}") from None
        others = known.foreign(candidate, *of_gate)
        if others and not gate.allow_transferred:
            raise CalibrationError(
                f"{where}: calibrate on answers of {candidate} to "
                f"{' '.join(filter(None, (gate.benchmark, gate.group)))} "
                "(refusal-checks calibrate --benchmark), give --human-labels, or write "
                f"allow_transferred = true: {path} is from {others}, on which a judge errs "
                "differently"
            )
    return rates


def require_own_labels(
    labels: HumanLabels | None, plan: Plan, candidate: Candidate, store: Store, board: Board
) -> None:
    """Check human labels against the run's prompts, and the answers that the store has."""
    if labels is None:
        return
    this = f"run {board.folder.name} of {candidate.name}"
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
        others = [row for row in lost if row.draw and row.draw.candidate != candidate.name]
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


def measure(
    files: Sequence[LabelFile],
    judging: Judging,
    limits: Limits,
    scale: Scale,
    store: Path,
    folder: Path,
    say: Callable[[str], None],
) -> list[MeasuredJudge]:
    """Measure judges against human labels, each alone and, if there are several, together.

    Args:
        store: of verdicts; ``MEMORY`` for none.
        folder: where engines write their logs.
        say: shows one line to the user.

    Raises:
        UserError: a judge cannot be used.
        EngineStartError, EngineDiedError, EndpointError: a judge's server is not there.
    """
    labelled = [answer for file in files for answer in file.answers]
    plan = {file.candidate: [answer.as_prompt for answer in file.answers] for file in files}
    answers = {answer.as_prompt.id: (Completion(answer.answer),) for answer in labelled}
    recorded = RecordedJudging(judging, limits, scale.name, plan, answers, folder, say)
    (found,) = recorded.rounds([recorded.judges], store)
    records = [record for file in files for record in found.records[file.candidate]]
    panel = next(iter(recorded.judges.values()))
    reading = ReplayOptions()
    votes = {
        identify(judge, reading): [_vote(record, judge.name) for record in records]
        for judge in panel
    }
    if len(panel) > 1:
        votes[identify_panel(panel, reading)] = [record.judgement for record in records]
    return [
        MeasuredJudge(
            judge,
            tuple(
                judged(answer, judgement, scale)
                for answer, judgement in zip(labelled, judgements, strict=True)
            ),
        )
        for judge, judgements in votes.items()
    ]


def _vote(record: Record, judge: str) -> Judgement:
    votes = {vote.judge: vote.judgement for vote in record.votes}
    return votes.get(judge, record.judgement)


class JudgedRound(NamedTuple):
    """What one panel said of recorded answers, and its cost.

    Attributes:
        records: by the plan's names, in the plan's order.
        cost: the fields of ``Usage``.
        seconds: without the start of engines.
    """

    records: dict[str, Sequence[Record]]
    cost: dict[str, int]
    seconds: float


class RecordedJudging:
    """Judges on engines of their own that read recorded answers.

    Args:
        kind: the way of judging, a module of ``judges.kinds``.
        answers: by a prompt's id.
        folder: where engines write their logs.
        say: shows one line to the user.

    Raises:
        ModelError: a judge, or its prompt, cannot be used; nothing has been started then.
    """

    def __init__(
        self,
        judging: Judging,
        limits: Limits,
        kind: str,
        plan: Plan,
        answers: Mapping[str, tuple[Completion, ...]],
        folder: Path,
        say: Callable[[str], None],
    ) -> None:
        self._judging = judging
        self._in_flight = prompts_at_once(limits, judging.models)
        self._plan = plan
        self._candidate = ReplayCandidate(_RECORDED, Recording(Path(), answers, {}, {}))
        self._say = say
        convert(judging.models, say)
        answering = Answering(Replay(_RECORDED, Path()))
        settings = pool_settings(answering, judging, limits, PlacementRequest())
        self._engines = Engines(settings, folder)
        guides = {each.judge: each.category_guide for each in discover().values()}
        ways = dict.fromkeys(plan, Way(kind, category_guide=guides.get(kind)))
        self.judges: Judges = judge_panels(judging, ways, self._engines, say, is_recorded=True)

    def rounds(self, several: Sequence[Judges], path: Path) -> list[JudgedRound]:
        """The same answers read by several panels, one after the other, on the same engines.

        Args:
            several: panels by the plan's names; their models are those of the options.
            path: of the store.

        Raises:
            EngineStartError, EngineDiedError, EndpointError: a judge's server is not there.
        """
        with Store(path) as store:
            tasks = [Task(self._plan, self._candidate, judges, store) for judges in several]
            todos = list(map(pending, tasks))
            names = frozenset[str]().union(*(todo.judges for todo in todos))
            asked = [judge.model for judge in self._judging.judges if judge.name in names]
            self._say(f"{sum(todo.verdicts for todo in todos)} verdicts to ask for at most")
            try:
                self._engines.place(asked)
                self._engines.start(self._say)
                return asyncio.run(self._evaluate(tasks))
            finally:
                self._engines.stop()

    async def _evaluate(self, tasks: Sequence[Task]) -> list[JudgedRound]:
        async with AsyncExitStack() as stack:
            for client in self._engines.clients:
                await stack.enter_async_context(client)
            return [await self._round(task) for task in tasks]

    async def _round(self, task: Task) -> JudgedRound:
        records: dict[str, Sequence[Record]] = {}

        def evaluation() -> Coroutine[None, None, None]:
            finished = records.__setitem__
            return Evaluation(task, in_flight=self._in_flight, finished=finished).run()

        before, start = self._usage(), perf_counter()
        await self._engines.guard(evaluation, self._say)
        seconds, after = perf_counter() - start, self._usage()
        cost = {name: after[name] - before.get(name, 0) for name in after}
        return JudgedRound({name: records[name] for name in self._plan}, cost, seconds)

    def _usage(self) -> dict[str, int]:
        return dict(self._engines.account()["tokens"].get("judge", {}))


_RECORDED = "recorded answers"
