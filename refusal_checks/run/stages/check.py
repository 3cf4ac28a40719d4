"""Check a run's judges on exchanges with known verdicts or a known order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from time import perf_counter
from typing import NamedTuple

from refusal_checks.benchmarks import Benchmark
from refusal_checks.core.judgements import Invalid, Reason
from refusal_checks.core.labelling import is_model
from refusal_checks.core.records import Record
from refusal_checks.core.text import sanitize
from refusal_checks.engines.servers import NOT_STORED
from refusal_checks.gates.gate import Gate
from refusal_checks.io.store import Store
from refusal_checks.judges import kind_of
from refusal_checks.judges.judge import Judge, JudgeKind
from refusal_checks.judges.kinds.multiple_choice import RulesJudge
from refusal_checks.judges.rules import LabelsJudge
from refusal_checks.models.provided_models import DEMO_JUDGE
from refusal_checks.results.summary import quote_unread_verdict
from refusal_checks.run.panels import known_exchanges, method_of
from refusal_checks.run.plan import (
    Judges,
    MissingWork,
    Task,
    missing_work,
)
from refusal_checks.run.stream import PromptStream
from refusal_checks.trust import canary
from refusal_checks.trust.minimums import JudgeCheck, JudgeMinimums, check_judge
from refusal_checks.trust.validation_sets import SETS, ValidationSet, has_check


class Fault(NamedTuple):
    """A check that failed for a reason other than wrong verdicts."""

    advice: str  # what to do, and why
    is_public: bool  # quotes no server, so it may be shown when texts are redacted


@dataclass(frozen=True)
class CheckResult:
    """What a check of the judges found.

    Attributes:
        check: the figures; None if there was nothing to check.
        faults: checks that failed because verdicts are missing, by judging method.
        quote: a note that quotes an answer that could not be read; empty if all could.
        is_overruled: True if the run file lets judges decide whatever their check says.
    """

    check: JudgeCheck | None = None
    faults: Mapping[str, Fault] = field(default_factory=dict)
    quote: str = ""
    is_overruled: bool = False

    @property
    def finished_check(self) -> JudgeCheck | None:
        """The check's figures; None if it has no result."""
        return None if self.faults else self.check

    def why_unfit(self, kind: JudgeKind) -> str:
        """Why judges of this kind may not decide, and what to do; empty if they may."""
        if self.check is None or self.is_overruled or not has_check(kind):
            return ""
        method = method_of(kind)
        if method in self.faults:
            return self.faults[method].advice
        check = self.check.of(method)
        return "" if check.is_trusted else check.distrust


class JudgeChecks:
    """Checks a run's judges on exchanges with known verdicts, each judging method separately.

    Several judges of one method decide together, as they do for gates.

    Args:
        minimums: lowest accepted figures of the judges; None if the run file has none.
        level: confidence level of the figures' intervals.
        quotes: whether a fault may quote a judge's server.
        is_overruled: see ``CheckResult``.

    Attributes:
        why_idle: why there is nothing to check; else empty.
    """

    def __init__(
        self,
        judges: Judges,
        minimums: JudgeMinimums | None,
        store: Store,
        *,
        level: float,
        quotes: bool,
        is_overruled: bool = False,
    ) -> None:
        self.why_idle = ""
        self._is_overruled = is_overruled
        self._minimums = minimums or JudgeMinimums()
        self._level = level
        self._quotes = quotes
        self._tasks: dict[str, tuple[ValidationSet, Task]] = {}
        by_method = canary.select_panels(judges)
        for method, panel in by_method.items():
            # Recorded labels are of the run's own answers: the canary has none. Rules read choices
            # that are certain, and leave those of the check to a model.
            asked = tuple(
                judge
                for judge in panel
                if not isinstance(judge, LabelsJudge | RulesJudge)
            )
            if asked:
                known = known_exchanges(method, asked)
                self._tasks[method] = (
                    known,
                    Task(
                        {canary.NAME: known.plan()},
                        known.candidate(),
                        {canary.NAME: asked},
                        store,
                    ),
                )
        if minimums is None:
            self.why_idle = (
                "the judge was not checked: no run file has a [judge.check] table"
            )
        elif all(isinstance(judge, RulesJudge) for judge in chain(*by_method.values())):
            self.why_idle = "no gate of this run has a judge that can be checked"
        elif not self._tasks:
            self.why_idle = "judge labels was not checked: it repeats recorded labels"

    def missing_work(self) -> list[MissingWork]:
        if self.why_idle:
            return []
        return [missing_work(task) for _, task in self._tasks.values()]

    async def run(self, in_flight: int) -> CheckResult:
        """Compare the judges' figures with the minimums.

        The verdicts stay in the store, so a check that failed is not repeated until it passes.
        """
        if self.why_idle:
            return CheckResult()
        found: list[JudgeCheck] = []
        faults: dict[str, Fault] = {}
        quote = ""
        for method, (known, task) in self._tasks.items():
            panel = task.judges[canary.NAME]
            todo, start = missing_work(task), perf_counter()
            records = await judge_all(task, in_flight)
            check = JudgeCheck(
                ", ".join(judge.name for judge in panel),
                known.digest,
                check_judge(self._minimums, records, self._level, method, known),
                todo.verdicts,
                perf_counter() - start,
            )
            found.append(check)
            quote = quote or quote_unread_verdict(
                records, [one.expected for one in panel]
            )
            # A judge that is wrong where it answers is untrusted, however often its server failed;
            # where only verdicts are missing, the advice is about those.
            if not (check.is_trusted or _is_wrong(self._minimums, records, known)):
                fault = _fault(panel, records, quotes=self._quotes)
                if fault:
                    faults[method] = fault
        total = JudgeCheck(
            judge=", ".join(dict.fromkeys(check.judge for check in found)),
            digest=", ".join(dict.fromkeys(check.digest for check in found)),
            checks=tuple(chain.from_iterable(check.checks for check in found)),
            asked=sum(check.asked for check in found),
            seconds=sum(check.seconds for check in found),
        )
        if self._is_overruled:  # its figures are shown, and nothing follows from them
            faults = {}
        return CheckResult(total, faults, quote, self._is_overruled)


def _is_wrong(
    minimums: JudgeMinimums, records: Sequence[Record], known: ValidationSet
) -> bool:
    """True if the verdicts that did arrive miss a minimum anyway."""
    sound = [each for each in records if not (_failure(each) or _is_cut(each))]
    return bool(sound) and any(
        check.estimate and not check.passed
        for check in check_judge(minimums, sound, exchanges=known)
    )


def _fault(
    panel: Sequence[Judge], records: Sequence[Record], *, quotes: bool
) -> Fault | None:
    """Why verdicts of the check are missing; None if the judges' verdicts were just unclear."""
    judges, total = ", ".join(judge.name for judge in panel), len(records)
    failures = [_failure(record) for record in records if _failure(record)]
    cut = sum(map(_is_cut, records))
    if cut > len(failures):
        most = max(judge.max_tokens for judge in panel)
        return Fault(
            f"raise judge.max_tokens (now {most}): {cut / total:.0%} of the verdicts of "
            f"{judges} did not end, {cut} of {total} in the judge's check",
            is_public=True,
        )
    if not failures:
        return None
    advice = f"run the same command again once {judges} answers"
    if any(NOT_STORED in failure for failure in failures):
        advice = f"leave out store.only: with it, {judges} cannot be asked"
    elif all("HTTP 400" in failure for failure in failures):
        advice = f"replace {judges} with another judge, or with one at another server"
    first = sanitize(f": {failures[0]}", 300) if quotes else ""
    return Fault(
        f"{advice}: {len(failures)} of {total} requests of the judge's check failed{first}",
        is_public=False,
    )


def _failure(record: Record) -> str:
    """The error of a judge's server that gave no verdict; empty if there was none."""
    judgement = record.judgement
    if isinstance(judgement, Invalid) and judgement.reason is Reason.JUDGE_ERROR:
        return judgement.detail or "no reason"
    return ""


def _is_cut(record: Record) -> bool:
    """True if the verdict is missing because a judge did not end, as at its token limit."""
    verdicts = (record.judgement, *(vote.judgement for vote in record.votes))
    missing = [one.reason for one in verdicts if isinstance(one, Invalid)]
    is_missing = isinstance(record.judgement, Invalid)
    return is_missing and Reason.UNFINISHED_VERDICT in missing


async def judge_all(task: Task, in_flight: int) -> Sequence[Record]:
    """Judge a task of one benchmark, all prompts at once; return its records."""
    records: list[Record] = []
    await PromptStream(
        task, in_flight=in_flight, finished=lambda _, complete: records.extend(complete)
    ).run()
    return records


def find_untested(
    gates: Sequence[Gate],
    benchmarks: Mapping[str, Benchmark],
    judges: Judges,
    minimums: JudgeMinimums | None,
    labelled_by: str = "",
) -> dict[str, str]:
    """What to do about untested judges, by benchmark.

    Args:
        labelled_by: who gave the recorded labels; a model's are a judge's verdicts.
    """
    found: dict[str, str] = {}
    for gate in gates:
        kind, panel = kind_of(benchmarks[gate.benchmark]), judges[gate.benchmark]
        scale = kind.judgement_type.scale
        if not (scale or has_check(kind)):
            continue
        if all(isinstance(judge, RulesJudge) for judge in panel):
            continue  # of choices, rules read what is certain
        if all(isinstance(judge, LabelsJudge) for judge in panel):
            if is_model(labelled_by) and labelled_by != DEMO_JUDGE:
                found[gate.benchmark] = (
                    f"name another judge: the recorded {scale or 'labels'} are by {labelled_by}, "
                    "an untested model"
                )
            continue
        judge = f"the judge of {scale}" if scale else "the judge"
        why = f"read some of its verdicts, then accept this: no check covers {judge}"
        if has_check(kind):
            why = _explain_missing_minimums(judge, minimums, SETS[kind.judgement_type])
        if why:
            found[gate.benchmark] = why
    return found


def _explain_missing_minimums(
    judge: str, minimums: JudgeMinimums | None, check: ValidationSet
) -> str:
    """Say what to do if the minimums do not test a judge; empty if they do."""
    if minimums is None:
        return f"write a [judge.check] table into the run file: {judge} was not tested"
    if minimums.tell(check):
        return ""
    if check.value:
        return (
            f"set a minimum for rank_agreement in [judge.check]: {judge} was not tested, and one "
            "that gives every answer the same verdict passes"
        )
    return (
        "raise specificity and sensitivity in [judge.check] until they add up to more than 1: now "
        "a judge that gives every answer the same verdict passes"
    )
