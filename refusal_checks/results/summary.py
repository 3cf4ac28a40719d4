"""The run's summary: all that is known of a run but the texts of its prompts and answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.prompts import Kind
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Invalid
from refusal_checks.core.votes import is_disputed
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges.trust.check import JudgeCheck
from refusal_checks.metrics import (
    METRICS,
    Metric,
    by_prompt,
    rejection_rate,
    safety_score,
    score_all,
)
from refusal_checks.metrics.statistics.distribution import Distribution, distribution
from refusal_checks.metrics.statistics.intervals import Estimate, wilson
from refusal_checks.results.manifest import Manifest


@dataclass(frozen=True)
class BenchmarkSummary:
    """What one benchmark gave.

    Attributes:
        figures: every metric over all prompts.
        groups: the same by kind and group; a metric without a valid verdict is absent.
        invalid: answers without a verdict, by reason.
        planned: prompts that the benchmark has; more than ``prompts`` where it was stopped early.
        kind: what the prompts ask for: safety, sanity or sensitive.
        disputed: answers on which several judges' valid votes differ; None where none has two.
        safety_scores: score by prompt id, where answers are rated.
        judge_scores: the same of each of several judges, by judge.
        distributions: of the scores, by category.
    """

    prompts: int
    answers: int
    figures: Mapping[str, Estimate]
    groups: Mapping[str, Mapping[str, Mapping[str, Estimate]]]
    invalid: Mapping[str, int]
    planned: int = 0
    kind: str = ""
    disputed: int | None = None
    safety_scores: Mapping[str, float] = field(default_factory=dict)
    judge_scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    distributions: Mapping[str, Distribution] = field(default_factory=dict)

    @property
    def saved(self) -> float:
        """Share of the benchmark's prompts that stopping early has saved."""
        return 1 - self.prompts / self.planned if self.planned else 0.0


@dataclass
class RunSummary:
    """A run, filled while it goes on.

    Attributes:
        manifest: what was run, with what, on what.
        verdicts: by gate id; errors: why a gate has none, by gate id.
        notes: what the user must know of how the verdicts came about.
        failure: why the evaluation ended early; empty where it did not.
        judge: how the judge did on its own check; None where it was not checked.
        balance: under-refusal beside over-refusal.
        expected_breaches, expected_failures: false alarms to expect without correction if every
            figure lay on its bound: gates called breached, and tests that fail.
    """

    manifest: Manifest = field(default_factory=Manifest)
    benchmarks: dict[str, BenchmarkSummary] = field(default_factory=dict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    failure: str = ""
    judge: JudgeCheck | None = None
    balance: Balance | None = None
    expected_breaches: float = 0.0
    expected_failures: float = 0.0

    def note(self, line: str) -> None:
        """Add a note, once."""
        if line not in self.notes:
            self.notes.append(line)


def summarise(
    records: Sequence[Record],
    level: float,
    scores: Mapping[str, Mapping[str, float]] | None = None,
    planned: int = 0,
    kind: str = "",
) -> BenchmarkSummary:
    """All figures of one benchmark's records, overall and by group.

    Args:
        scores: by metric and prompt id, where they are known already.
        planned: prompts that the benchmark has, where fewer were evaluated.
        kind: of the benchmark.
    """
    scores = scores or score_all(records)
    grouped = by_prompt(records)
    reasons = (r.judgement.reason for r in records if isinstance(r.judgement, Invalid))
    groups: dict[str, dict[str, list[str]]] = {}
    for id, answers in grouped.items():
        for label, group in sorted(answers[0].prompt.groups.items()):
            groups.setdefault(label, {}).setdefault(group, []).append(id)
    return BenchmarkSummary(
        prompts=len(grouped),
        answers=len(records),
        figures=_figures(scores, grouped, grouped, level),
        groups={
            label: {
                group: _figures(scores, grouped, ids, level) for group, ids in sorted(found.items())
            }
            for label, found in sorted(groups.items())
        },
        invalid=dict(Counter(map(str, reasons))),
        planned=max(planned, len(grouped)),
        kind=kind,
        disputed=_disputed(records),
        safety_scores=safety_score.scores(records),
        judge_scores=_judge_scores(records),
        distributions=_distributions(records),
    )


def _disputed(records: Sequence[Record]) -> int | None:
    found = [disputed for r in records if (disputed := is_disputed(r.votes)) is not None]
    return sum(found) if found else None


def _judge_scores(records: Sequence[Record]) -> dict[str, dict[str, float]]:
    by_judge: dict[str, list[Record]] = {}
    for record in records:
        for vote in record.votes:
            by_judge.setdefault(vote.judge, []).append(replace(record, judgement=vote.judgement))
    scores = {judge: safety_score.scores(found) for judge, found in by_judge.items()}
    return {judge: found for judge, found in scores.items() if found}


def _distributions(records: Sequence[Record]) -> dict[str, Distribution]:
    scores = safety_score.scores(records)
    by_category: dict[str, list[float]] = {}
    for id, answers in by_prompt(records).items():
        if id in scores:
            category = answers[0].prompt.groups.get("category", "")
            by_category.setdefault(category, []).append(scores[id])
    limits = safety_score.lowest, safety_score.highest
    return {name: distribution(found, *limits) for name, found in sorted(by_category.items())}


def _figures(
    scores: Mapping[str, Mapping[str, float]],
    answers: Mapping[str, Sequence[Record]],
    ids: Iterable[str],
    level: float,
) -> dict[str, Estimate]:
    ids = list(ids)
    figures = {}
    for name, by_id in scores.items():
        found = [by_id[id] for id in ids if id in by_id]
        if found and type(METRICS[name]) is Metric:
            figures[name] = METRICS[name].figure(found, level)
        elif found:  # a figure that is no share or mean of its prompts' scores
            with suppress(EvaluationError):
                seen = [record for id in ids for record in answers[id]]
                figures[name] = METRICS[name].estimate(seen, level)
    return figures


METRIC = rejection_rate.name


@dataclass(frozen=True)
class Balance:
    """A run as one point of a plot; the best one is (0, 0).

    Attributes:
        under_refusal: share of the safety benchmarks' prompts that are not rejected.
        over_refusal: share of the sanity benchmarks' prompts that are rejected.
    """

    under_refusal: Estimate
    over_refusal: Estimate


def balance(
    benchmarks: Iterable[tuple[str, Mapping[str, Estimate]]], confidence: float
) -> Balance | None:
    """The pair of a run; None unless it has benchmarks of both kinds.

    Args:
        benchmarks: kind and figures of each. They are pooled: every prompt counts the same.
    """
    rates: dict[str, list[Estimate]] = {}
    for kind, figures in benchmarks:
        if METRIC in figures:
            rates.setdefault(kind, []).append(figures[METRIC])
    if not {Kind.SAFETY.value, Kind.SANITY.value} <= rates.keys():
        return None
    refused, over = (_pooled(rates[kind.value], confidence) for kind in (Kind.SAFETY, Kind.SANITY))
    under = Estimate(1 - refused.value, 1 - refused.upper, 1 - refused.lower, refused.n)
    return Balance(under, over)


def _pooled(estimates: Iterable[Estimate], confidence: float) -> Estimate:
    found = list(estimates)
    n = sum(estimate.n for estimate in found)
    return wilson(sum(estimate.value * estimate.n for estimate in found) / n, n, confidence)
