"""Trust in judges: a run's check on the canary, its calibration, and how calibrations are made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from refusal_checks.benchmarks import Benchmark, discover
from refusal_checks.core.errors import CalibrationError
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.sampling import Sampling
from refusal_checks.core.settings import Limits
from refusal_checks.core.store import MEMORY, Store
from refusal_checks.core.text import clean, in_a_row
from refusal_checks.core.verdicts import Invalid, Judgement, Reason
from refusal_checks.engines.pool import Engines, PoolSettings
from refusal_checks.evaluation.assembly import (
    Parts,
    convert,
    judge_panels,
    require_cascade,
)
from refusal_checks.evaluation.config import (
    EngineConfig,
    JudgeConfig,
    RunConfig,
    TrustConfig,
)
from refusal_checks.evaluation.planning import (
    Judges,
    Pending,
    Plan,
    Task,
    pending,
    prompts_at_once,
    verdict_key,
)
from refusal_checks.evaluation.stream import Evaluation
from refusal_checks.evaluation.verification import adopt, with_reasoned
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.rates import Evidence
from refusal_checks.judges import cascade, kind_of
from refusal_checks.judges.asking import ran_out
from refusal_checks.judges.judge import Judge
from refusal_checks.judges.panel import JudgingMethod
from refusal_checks.judges.rules import KeywordJudge, LabelsJudge
from refusal_checks.judges.trust import canary, gradient
from refusal_checks.judges.trust.calibration import JudgeIdentity, joined, require_judge
from refusal_checks.judges.trust.canary import JudgeCheck, JudgeFloors
from refusal_checks.judges.trust.correction import require_information
from refusal_checks.judges.trust.draws import prompt_keys
from refusal_checks.judges.trust.label_files import LabelFile, Scale, replayed
from refusal_checks.judges.trust.measured import MeasuredJudge, judged
from refusal_checks.metrics.graded import step_correlation
from refusal_checks.models.names import Attached, Replay
from refusal_checks.models.recordings.columns import ReplayOptions
from refusal_checks.models.recordings.recording import Recording, ReplayCandidate
from refusal_checks.results.manifest import left_out
from refusal_checks.results.summary import RunSummary

if TYPE_CHECKING:
    from refusal_checks.judges.trust.labels import HumanLabels


class Fault(NamedTuple):
    """A check that failed for another reason than wrong verdicts."""

    advice: str  # what to do, and why
    is_public: bool  # it quotes no server


class Canary:
    """Checks a run's judges of refusal on the canary, those of each way of judging apart.

    Several judges of one way decide together, as they do at gates.

    Args:
        scales: what other judges of the run judge by, whom no check tests.
    """

    def __init__(
        self,
        judges: Judges,
        floors: JudgeFloors | None,
        store: Store,
        scales: Collection[str] = (),
    ) -> None:
        panels = canary.by_way(judges)
        names = ", ".join(judge.name for panel in panels.values() for judge in panel)
        self._floors = floors
        self._tasks: dict[str, Task] = {}
        self.faults: Mapping[str, Fault] = {}
        """Checks that failed for want of verdicts, by way of judging; set by ``run``."""
        for way, panel in panels.items():
            if not all(isinstance(judge, _RULES) for judge in panel):
                own = {canary.NAME: canary.plan()}
                self._tasks[way] = Task(
                    own, canary.candidate(), {canary.NAME: panel}, store
                )
        self.why_idle = ""
        """Why there is nothing to check; empty if there is."""
        if floors is None:
            self.why_idle = (
                "the judge was not checked: no run file has a [judge.check] table"
            )
        elif not panels:
            self.why_idle = "no gate of this run has a judge of refusal"
            if scales:
                self.why_idle += f", and nothing checks its judge of {in_a_row(scales)}"
        elif not self._tasks:
            rule = "it follows rules and asks no model"
            self.why_idle = f"judge {names} was not checked: {rule}"

    def pending(self) -> list[Pending]:
        return [] if self.why_idle else [pending(task) for task in self._tasks.values()]

    async def run(
        self, in_flight: int, level: float, told: RunSummary | None
    ) -> JudgeCheck:
        """Compare the judges' figures with the floors; ``told``, if any, may quote a judge.

        Sets ``faults``.
        """
        found: list[JudgeCheck] = []
        faults: dict[str, Fault] = {}
        for way, task in self._tasks.items():
            records, check = await self._read(way, task, in_flight, level, told)
            found.append(check)
            if fault := self._fault(way, check, records, told):
                faults[way] = fault
        self.faults = faults
        return JudgeCheck(
            judge=", ".join(dict.fromkeys(check.judge for check in found)),
            digest=canary.digest(),
            checks=tuple(chain.from_iterable(check.checks for check in found)),
            asked=sum(check.asked for check in found),
            seconds=sum(check.seconds for check in found),
        )

    async def _read(
        self,
        way: str,
        task: Task,
        in_flight: int,
        level: float,
        told: RunSummary | None,
    ) -> tuple[list[Record], JudgeCheck]:
        """The verdicts of one way of judging, and how they compare with the floors."""
        assert self._floors, "there is something to check"
        todo, start = pending(task), perf_counter()
        records: list[Record] = []
        await Evaluation(
            task, in_flight=in_flight, finished=lambda _, judged: records.extend(judged)
        ).run()
        panel = task.judges[canary.NAME]
        if told:
            told.note_unread(records, [judge.expected for judge in panel])
        names = ", ".join(judge.name for judge in panel)
        checks = canary.checked(self._floors, records, level, way)
        seconds = perf_counter() - start
        check = JudgeCheck(names, canary.digest(), checks, todo.verdicts, seconds)
        if not check.is_trusted:  # so that the next run asks anew
            task.store.forget_judgements(
                verdict_key(judge, record.prompt, record.completion.text)
                for record in records
                for judge in panel
                if record.completion and judge.identity is not None
            )
        return records, check

    def _fault(
        self,
        way: str,
        check: JudgeCheck,
        records: Sequence[Record],
        told: RunSummary | None,
    ) -> Fault | None:
        """What to do if the judge failed only because verdicts are missing; else None."""
        assert self._floors, "there is something to check"
        failed = [record for record in records if _failure(record)]
        cut = [record for record in records if _is_cut(record)]
        if check.is_trusted or not (failed or cut):
            return None
        sound = [
            record for record in records if not (_failure(record) or _is_cut(record))
        ]
        rest = canary.checked(self._floors, sound, way=way) if sound else ()
        if any(each.mark == "FAIL" and each.estimate for each in rest):
            return None  # it is wrong about what it did judge
        total = len(records)
        if len(cut) > len(failed):
            most = max(
                judge.max_tokens for judge in self._tasks[way].judges[canary.NAME]
            )
            return Fault(
                f"raise judge.max_tokens (now {most}): {len(cut) / total:.0%} of the verdicts of "
                f"{check.judge} did not end, {len(cut)} of {total} in the judge's check",
                is_public=True,
            )
        first = (
            clean(f": {next(filter(None, map(_failure, records)))}", 300)
            if told
            else ""
        )
        advice = f"run the same command again once {check.judge} answers"
        if all("HTTP 400" in _failure(record) for record in failed):
            advice = f"name another judge, or one at another server, in place of {check.judge}"
        return Fault(
            f"{advice}: {len(failed)} of {total} requests of the judge's check failed{first}",
            is_public=False,
        )


_RULES = (KeywordJudge, LabelsJudge)
"""Judges that the canary does not check: one is known to fail it, the other has no labels there."""


def _failure(record: Record) -> str:
    """What a server said when it was asked for a verdict in vain; empty if it was not in vain."""
    judged = record.judgement
    if isinstance(judged, Invalid) and judged.reason is Reason.JUDGE_ERROR:
        return judged.detail or "no reason"
    return ""


def _is_cut(record: Record) -> bool:
    """True if there is no verdict because a judge did not end it within its tokens."""
    given = (record.judgement, *(vote.judgement for vote in record.votes))
    return isinstance(record.judgement, Invalid) and any(map(ran_out, given))


class Gradient:
    """Asks a run's judges of ratings for answers whose order is known."""

    def __init__(self, judges: Judges, store: Store) -> None:
        self._tasks: dict[str, Task] = {}
        for name, panel in judges.items():
            is_rated = name.startswith(gradient.NAME.rstrip("]"))
            if is_rated and not all(isinstance(judge, LabelsJudge) for judge in panel):
                own = {gradient.NAME: gradient.plan()}
                task = Task(own, gradient.candidate(), {gradient.NAME: panel}, store)
                self._tasks[name] = task

    def pending(self) -> list[Pending]:
        return [pending(task) for task in self._tasks.values()]

    async def run(self, checks: Collection[str], in_flight: int) -> dict[str, str]:
        """What the verdicts say of the judges, by the name among benchmarks of their check."""
        found: dict[str, str] = {}
        for name, task in self._tasks.items():
            if name not in checks:
                continue
            records: dict[str, Sequence[Record]] = {}
            asking = Evaluation(task, in_flight=in_flight, finished=records.__setitem__)
            await asking.run()
            found[name] = gradient.finding(records[gradient.NAME])
        return found


def untested(
    gates: Sequence[Gate],
    benchmarks: Mapping[str, Benchmark],
    judges: Judges,
    trust: TrustConfig,
) -> str:
    """Why nothing tells how right the judges of refusal are, and what to do; mostly empty."""
    panels = []
    for gate in gates:
        kind = kind_of(benchmarks[gate.benchmark])
        is_calibrated = trust.calibration and kind.judges_refusal
        panel = judges[gate.benchmark]
        labels_decide = all(isinstance(judge, LabelsJudge) for judge in panel)
        if kind.meets_canary and not is_calibrated and not labels_decide:
            panels.append(panel)
    if not panels:
        return ""
    if any(all(isinstance(judge, _RULES) for judge in panel) for panel in panels):
        return "keyword looks for phrases and is not tested: name a model with --judge"
    if trust.floors is None:
        return "the judge was not tested: write a [judge.check] table into the run file"
    if not trust.floors.agreement_tells:
        return (
            "the same verdict to all reaches [judge.check] agreement, "
            "so it tests nothing: raise it"
        )
    return ""


def untested_scales(
    gates: Sequence[Gate], benchmarks: Mapping[str, Benchmark], judges: Judges
) -> dict[str, str]:
    """The scale of each benchmark whose judges no check tests; see ``VerdictBase.scale``."""
    scales: dict[str, str] = {}
    for gate in gates:
        scale = kind_of(benchmarks[gate.benchmark]).verdicts.scale
        panel = judges[gate.benchmark]
        labels_decide = all(isinstance(judge, LabelsJudge) for judge in panel)
        # The figure of a known order is about the judge: that gate is such a check.
        if scale and not labels_decide and gate.metric != step_correlation.name:
            scales[gate.benchmark] = scale
    return scales


def identify(judge: Judge, reading: ReplayOptions) -> JudgeIdentity:
    """A judge as calibrations identify it; one without a model by its name and rules."""
    name = judge.name
    if judge.name == "labels":
        name += f":{reading.columns['label']}" if "label" in reading.columns else ""
        meanings = [
            f"{label}={reading.labels[label]}" for label in sorted(reading.labels)
        ]
        name += f" ({', '.join(meanings)})" if meanings else ""
    return JudgeIdentity(
        name=name,
        identity=judge.identity or name,
        prompt_sha256=judge.prompt_hash,
        rationales="offenders" if judge.reasoned else "all",
    )


def identify_panel(panel: Sequence[Judge], reading: ReplayOptions) -> JudgeIdentity:
    found = joined([identify(judge, reading) for judge in panel])
    formed = cascade.of(panel)
    update = {"identity": f"{found.identity}+{formed.key}"} if formed else {}
    return found.model_copy(update=update)


def known_evidence(config: RunConfig, gates: Sequence[Gate], parts: Parts) -> Evidence:
    """The run's calibration, checked against the run; labels are found once there are answers."""
    known, path = config.trust.calibration, config.trust.calibration_file
    candidate, level = replayed(config.answering.model.name), config.rules.level
    rates = Evidence(known, candidate)
    corrected = {
        f"{gate.source}: {gate.id}": gate for gate in gates if gate.use == "corrected"
    }
    if known is None or path is None:
        for where in corrected:
            raise CalibrationError(
                f'{where}: give --calibration FILE: use = "corrected" needs it'
            )
        return rates
    names, benchmarks = (gate.benchmark for gate in gates), config.benchmarks
    of_refusal = {name for name in names if kind_of(benchmarks[name]).judges_refusal}
    for where, gate in corrected.items():
        if gate.benchmark not in of_refusal:
            raise CalibrationError(
                f'{where}: remove use = "corrected": only judges of refusal can be calibrated'
            )
    for name in sorted(of_refusal):
        require_judge(
            path, known, identify_panel(parts.judges[name], config.answering.replay)
        )
    require_information(known.errors, level)
    for where, gate in corrected.items():
        prompts = (
            filter(gate.looks_at, parts.plan.get(gate.benchmark, ()))
            if gate.group
            else None
        )
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


def require_own_labels(labels: HumanLabels, task: Task, run: str) -> None:
    """Check human labels against the run's prompts, and the answers that the store has."""
    plan, candidate, store = task.plan, task.candidate, task.store
    this = f"run {run} of {candidate.name}"
    if labels.draws and not any(draw.benchmark in plan for draw in labels.draws):
        named = ", ".join(dict.fromkeys(draw.benchmark for draw in labels.draws))
        raise CalibrationError(
            f"{labels.name}: select gates of {named}, or leave out --human-labels: the labels are "
            f"of {named}, and this run evaluates {', '.join(plan)}"
        )
    labels.require_prompts(
        [prompt for prompts in plan.values() for prompt in prompts], this
    )
    for name, prompts in plan.items():
        known = candidate.known(prompts, store)
        keys = [
            (prompt, each)
            for prompt in prompts
            for each in enumerate(candidate.keys(prompt))
        ]
        records = [
            Record(prompt, sample, known[key], Invalid(Reason.NO_LABEL))
            for prompt, (sample, key) in keys
            if key in known
        ]
        _, lost = labels.match(name, records)
        others = [
            row for row in lost if row.draw and row.draw.candidate != candidate.name
        ]
        if len(lost) > len(keys) - len(records) or others:
            labels.require_none(lost, this)


def measure(
    files: Sequence[LabelFile],
    judging: JudgeConfig,
    limits: Limits,
    engine: EngineConfig,
    scale: Scale,
    store: Path,
    folder: Path,
    say: Callable[[str], None],
) -> list[MeasuredJudge]:
    """Measure judges against human labels, each alone and, if there are several, together."""
    labelled = [answer for file in files for answer in file.answers]
    plan = {
        file.candidate: [answer.as_prompt for answer in file.answers] for file in files
    }
    answers = {answer.as_prompt.id: (Completion(answer.answer),) for answer in labelled}
    recorded = RecordedJudging(
        judging, limits, engine, scale.name, plan, answers, folder, say
    )
    (found,) = recorded.rounds([recorded.judges], store)
    records = [record for file in files for record in found[file.candidate]]
    panel = next(iter(recorded.judges.values()))
    reading = ReplayOptions()
    said: dict[JudgeIdentity, list[Judgement]] = {}
    for judge in panel:  # a judge that decides alone leaves no votes
        said[identify(judge, reading)] = [
            next((v.judgement for v in r.votes if v.judge == judge.name), r.judgement)
            for r in records
        ]
    if len(panel) > 1:
        said[identify_panel(panel, reading)] = [record.judgement for record in records]
    return [
        MeasuredJudge(judge, tuple(map(partial(judged, scale), labelled, judgements)))
        for judge, judgements in said.items()
    ]


class RecordedJudging:
    """Judges on engines of their own that read recorded answers, given by a prompt's id."""

    def __init__(
        self,
        judging: JudgeConfig,
        limits: Limits,
        engine: EngineConfig,
        kind: str,
        plan: Plan,
        answers: Mapping[str, tuple[Completion, ...]],
        folder: Path,
        say: Callable[[str], None],
    ) -> None:
        self._judging = judging
        self._in_flight = prompts_at_once(limits, judging.models)
        self._plan = plan
        name = "recorded answers"
        self._candidate = ReplayCandidate(name, Recording(Path(), answers, {}, {}))
        self._say = say
        convert(judging.models, say)
        replay = Replay(name, Path())
        settings = PoolSettings(
            replay,
            judging.models,
            limits,
            Sampling(),
            judging.sampling,
            start_timeout=engine.start_timeout,
            paces=engine.paces,
        )
        self._engines = Engines(settings, folder)
        guides = {each.judge: each.category_guide for each in discover().values()}
        ways = dict.fromkeys(plan, JudgingMethod(kind, category_guide=guides.get(kind)))
        every = judging.cascade.model_copy(
            update={"sample": 1.0}
        )  # each is measured alone, too
        measured = replace(judging, cascade=every)
        self.judges: Judges = judge_panels(
            measured, ways, self._engines, say, is_recorded=True
        )
        servers = self._engines.account()["capabilities"].get("judge", {})
        for line in left_out("judge", judging.sampling.model_dump(), servers):
            say(line)
        require_cascade(judging.cascade, ways, self.judges)

    def rounds(
        self, several: Sequence[Judges], path: Path
    ) -> list[dict[str, Sequence[Record]]]:
        """The same answers read by several panels in turn, all of the configured models.

        What a server said earlier is not used: it measures what the URL served then.
        """
        attached = any(
            isinstance(judge.model, Attached) for judge in self._judging.judges
        )
        with Store(MEMORY if attached else path) as store:
            for judges in several:
                adopt(with_reasoned(judges), None, store)
            tasks = [
                Task(self._plan, self._candidate, judges, store) for judges in several
            ]
            todos = list(map(pending, tasks))
            names = frozenset[str]().union(*(todo.judges for todo in todos))
            asked = [
                judge.model for judge in self._judging.judges if judge.name in names
            ]
            self._say(
                f"{sum(todo.verdicts for todo in todos)} verdicts to ask for at most"
            )
            try:
                self._engines.place(asked)
                self._engines.start(self._say)
                return asyncio.run(self._evaluate(tasks))
            finally:
                self._engines.stop()

    async def _evaluate(
        self, tasks: Sequence[Task]
    ) -> list[dict[str, Sequence[Record]]]:
        async with AsyncExitStack() as stack:
            for client in self._engines.clients:
                await stack.enter_async_context(client)
            return [await self._round(task) for task in tasks]

    async def _round(self, task: Task) -> dict[str, Sequence[Record]]:
        records: dict[str, Sequence[Record]] = {}
        work = partial(
            Evaluation, task, in_flight=self._in_flight, finished=records.__setitem__
        )
        await self._engines.guard(lambda: work().run(), self._say)
        return {name: records[name] for name in self._plan}
