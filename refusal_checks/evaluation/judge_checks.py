"""Check a run's judges on exchanges with a known verdict or a known order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from time import perf_counter
from typing import NamedTuple

from refusal_checks.benchmarks import Benchmark
from refusal_checks.core.labelling import is_model
from refusal_checks.core.records import Record
from refusal_checks.core.store import Store
from refusal_checks.core.text import clean
from refusal_checks.core.verdicts import Invalid, Reason
from refusal_checks.engines.stored_only import NOT_STORED
from refusal_checks.evaluation.config import TrustConfig
from refusal_checks.evaluation.planning import (
    Judges,
    Pending,
    Task,
    pending,
)
from refusal_checks.evaluation.stream import Evaluation
from refusal_checks.gates.gate import Gate
from refusal_checks.judges import kind_of
from refusal_checks.judges.judge import Judge
from refusal_checks.judges.kinds.multiple_choice import RulesJudge
from refusal_checks.judges.model_judge import ran_out
from refusal_checks.judges.panel import exchanges, way_of
from refusal_checks.judges.rules import LabelsJudge
from refusal_checks.judges.trust import canary
from refusal_checks.judges.trust.check_sets import REFUSALS, CheckSet
from refusal_checks.judges.trust.floors import JudgeCheck, JudgeFloors, checked
from refusal_checks.metrics.graded import step_correlation
from refusal_checks.results.summary import RunSummary


class Fault(NamedTuple):
    """A check that failed for a reason other than wrong verdicts."""

    advice: str  # what to do, and why
    is_public: bool  # quotes no server, so it may be shown when texts are redacted


@dataclass(frozen=True)
class _Reading:
    """The canary as read by the judges of one judging method."""

    records: Sequence[Record]
    check: JudgeCheck

    @property
    def failed(self) -> list[Record]:
        """Exchanges for which a server gave no verdict."""
        return [record for record in self.records if _failure(record)]

    @property
    def cut(self) -> list[Record]:
        """Exchanges on which a judge reached its token limit."""
        return [record for record in self.records if _is_cut(record)]

    @property
    def sound(self) -> list[Record]:
        return [
            record
            for record in self.records
            if not (_failure(record) or _is_cut(record))
        ]


class JudgeChecks:
    """Checks a run's judges on exchanges with known verdicts, each judging method separately.

    Several judges of one method decide together, as they do for gates.

    Args:
        floors: lowest accepted figures of the judges; None if the run file has none.

    Attributes:
        why_idle: why there is nothing to check; else empty.
        faults: checks that failed because verdicts are missing, by judging method; set by ``run``.
    """

    def __init__(
        self,
        judges: Judges,
        floors: JudgeFloors | None,
        store: Store,
    ) -> None:
        self._floors = floors
        self._tasks: dict[str, Task] = {}
        self._sets: dict[str, CheckSet] = {}
        self.faults: Mapping[str, Fault] = {}
        panels = canary.by_way(judges)
        for way, panel in panels.items():
            # Recorded labels are of the run's own answers: the canary has none. Rules read choices
            # that are certain, and leave those of the check to a model.
            asked = tuple(
                judge
                for judge in panel
                if not isinstance(judge, LabelsJudge | RulesJudge)
            )
            if asked:
                own = self._sets[way] = exchanges(way, asked)
                self._tasks[way] = Task(
                    {canary.NAME: own.plan()},
                    own.candidate(),
                    {canary.NAME: asked},
                    store,
                )
        self.why_idle = self._why_idle(panels)

    def _why_idle(self, panels: Judges) -> str:
        if self._floors is None:
            return "the judge was not checked: no run file has a [judge.check] table"
        if all(isinstance(judge, RulesJudge) for judge in chain(*panels.values())):
            return "no gate of this run has a judge that can be checked"
        if not self._tasks:
            return "judge labels was not checked: it repeats recorded labels"
        return ""

    def pending(self) -> list[Pending]:
        if self.why_idle:
            return []
        return [pending(task) for task in self._tasks.values()]

    async def run(
        self,
        in_flight: int,
        level: float,
        notes: RunSummary | None,
        without: Collection[str] = (),
    ) -> JudgeCheck | None:
        """Compare the judges' figures with the floors; set ``faults``.

        Args:
            notes: receives lines that may quote a judge; None if texts are redacted.
            without: judging methods to leave out; None is returned if they are all.
        """
        checks: list[JudgeCheck] = []
        faults: dict[str, Fault] = {}
        for way, task in self._tasks.items():
            if way in without:
                continue
            reading = await self._read(way, task, in_flight, level)
            if notes:
                forms = [judge.expected for judge in task.judges[canary.NAME]]
                notes.note_unread(reading.records, forms)
            checks.append(reading.check)
            fault = self._fault(way, reading, quotes=notes is not None)
            if fault:
                faults[way] = fault
        self.faults = faults
        if not checks:
            return None
        return JudgeCheck(
            judge=", ".join(dict.fromkeys(check.judge for check in checks)),
            digest=", ".join(dict.fromkeys(check.digest for check in checks)),
            checks=tuple(chain.from_iterable(check.checks for check in checks)),
            asked=sum(check.asked for check in checks),
            seconds=sum(check.seconds for check in checks),
        )

    async def _read(
        self, way: str, task: Task, in_flight: int, level: float
    ) -> _Reading:
        """Ask the judges of one method, and compare their figures with the floors."""
        assert self._floors, "there is something to check"
        todo, start = pending(task), perf_counter()
        records = await judged(task, in_flight)
        panel = task.judges[canary.NAME]
        check = JudgeCheck(
            ", ".join(judge.name for judge in panel),
            self._sets[way].digest,
            checked(self._floors, records, level, way, self._sets[way]),
            todo.verdicts,
            perf_counter() - start,
        )
        return _Reading(records, check)

    def _fault(self, way: str, reading: _Reading, *, quotes: bool) -> Fault | None:
        """The fault if the judge failed only because verdicts are missing; else None."""
        assert self._floors, "there is something to check"
        check, failed, cut = reading.check, reading.failed, reading.cut
        if check.is_trusted or not (failed or cut):
            return None
        if reading.sound:
            sound = checked(self._floors, reading.sound, 0.95, way, self._sets[way])
            for part in sound:
                if not part.passed and part.estimate:
                    return None  # it is wrong about what it did judge
        total = len(reading.records)
        if len(cut) > len(failed):
            panel = self._tasks[way].judges[canary.NAME]
            most = max(judge.max_tokens for judge in panel)
            return Fault(
                f"raise judge.max_tokens (now {most}): {len(cut) / total:.0%} of the verdicts of "
                f"{check.judge} did not end, {len(cut)} of {total} in the judge's check",
                is_public=True,
            )
        advice = f"run the same command again once {check.judge} answers"
        if any(NOT_STORED in _failure(record) for record in failed):
            advice = f"leave out store.only: it asks {check.judge} for nothing"
        elif all("HTTP 400" in _failure(record) for record in failed):
            advice = f"replace {check.judge} with another judge, or with one at another server"
        first = clean(f": {_failure(failed[0])}", 300) if quotes else ""
        return Fault(
            f"{advice}: {len(failed)} of {total} requests of the judge's check failed{first}",
            is_public=False,
        )


def _failure(record: Record) -> str:
    """The error of a judge's server that gave no verdict; empty if there was none."""
    judgement = record.judgement
    if isinstance(judgement, Invalid) and judgement.reason is Reason.JUDGE_ERROR:
        return judgement.detail or "no reason"
    return ""


def _is_cut(record: Record) -> bool:
    """True if the verdict is missing because a judge reached its token limit."""
    verdicts = (record.judgement, *(vote.judgement for vote in record.votes))
    return isinstance(record.judgement, Invalid) and any(map(ran_out, verdicts))


async def judged(task: Task, in_flight: int) -> Sequence[Record]:
    """Judge a task of one benchmark, all prompts at once; return its records."""
    records: list[Record] = []
    await Evaluation(
        task, in_flight=in_flight, finished=lambda _, complete: records.extend(complete)
    ).run()
    return records


def untested(
    gates: Sequence[Gate],
    benchmarks: Mapping[str, Benchmark],
    judges: Judges,
    trust: TrustConfig,
    labelled_by: str = "",
) -> str:
    """Say what to do if nothing measures the judges of refusal; usually empty.

    Args:
        labelled_by: who gave the recorded labels; a model's are a judge's verdicts.
    """
    asks_models = False
    for gate in gates:
        kind = kind_of(benchmarks[gate.benchmark])
        if not kind.meets_canary or kind.verdicts.scale:
            continue
        if _labels_decide(judges[gate.benchmark]):
            if is_model(labelled_by):
                return (
                    f"name another judge: the recorded labels are by {labelled_by}, an untested "
                    "model"
                )
        else:
            asks_models = True
    return _untold("the judge", trust, REFUSALS) if asks_models else ""


def _untold(judge: str, trust: TrustConfig, check: CheckSet) -> str:
    """Say what to do if the floors tell nothing of a judge; empty if they do."""
    if trust.floors is None:
        return f"{judge} was not tested: write a [judge.check] table into the run file"
    if trust.floors.tell(check):
        return ""
    if check.value:
        return (
            f"{judge} was not tested: give [judge.check] a floor rank_agreement; without it, a "
            "judge that says the same of all answers passes"
        )
    return (
        "raise specificity and sensitivity of [judge.check] until they add up to more than 1: a "
        "judge that says the same of all answers passes now"
    )


def untested_scales(
    gates: Sequence[Gate],
    benchmarks: Mapping[str, Benchmark],
    judges: Judges,
    trust: TrustConfig,
    labelled_by: str = "",
) -> dict[str, str]:
    """By benchmark, what to do about judges by a scale that nothing tests.

    See ``VerdictBase.scale``.
    """
    scales: dict[str, str] = {}
    for gate in gates:
        kind = kind_of(benchmarks[gate.benchmark])
        scale = kind.verdicts.scale
        # The figure of a known order is about the judge: that gate is such a check.
        if not scale or gate.metric == step_correlation.name:
            continue
        if not _labels_decide(judges[gate.benchmark]):
            why = f"the judge of {scale} was not tested: no check covers it"
            if kind.meets_canary:
                check = exchanges(way_of(kind), judges[gate.benchmark])
                why = _untold(f"the judge of {scale}", trust, check)
        elif is_model(labelled_by):
            why = f"the recorded {scale} are by {labelled_by}, an untested model"
        else:
            why = ""
        if why:
            scales[gate.benchmark] = why
    return scales


def _labels_decide(panel: Sequence[Judge]) -> bool:
    """True if no model judges; of choices, rules may read what is certain."""
    return all(isinstance(judge, LabelsJudge | RulesJudge) for judge in panel)
