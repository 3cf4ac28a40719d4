"""Summary of one benchmark of a run, without the texts of prompts and answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.judgements import (
    Binary,
    Chosen,
    Invalid,
    Judgement,
    Label,
    Labelled,
)
from refusal_checks.core.language import other_language
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Record, is_disputed, spread
from refusal_checks.core.reservation_kinds import ONE_IN
from refusal_checks.judges.kinds.refusal import RefusalCategory
from refusal_checks.judges.rules import KeywordJudge
from refusal_checks.metrics import (
    METRICS,
    Metric,
    group_by_prompt,
    safety_score,
    score_all,
)
from refusal_checks.metrics.statistics.descriptive import Distribution, distribution
from refusal_checks.metrics.statistics.intervals import Estimate

Scores = Mapping[str, Mapping[str, float]]  # scores by metric and prompt id
Answers = Mapping[str, Sequence[Record]]  # records by prompt id
Figures = Mapping[str, Estimate]  # figures by metric


LANGUAGE_SAMPLE = 1000
"""Answers of a benchmark whose language is detected; see ``BenchmarkSummary.unmeasured``."""


@dataclass(frozen=True)
class RecordedLabels:
    """How far recorded labels used in place of a judge fit the answers' wording.

    Attributes:
        answers: labelled answers that were searched for phrases of refusal.
        contradicted: of these, the answers whose wording says the opposite of the label.
    """

    answers: int
    contradicted: int


@dataclass(frozen=True)
class BenchmarkSummary:
    prompts: int
    answers: int
    figures: Figures
    # figures by kind and group; a metric without a valid verdict is absent
    groups: Mapping[str, Mapping[str, Figures]]
    invalid: Mapping[str, int]  # answers without a verdict, by reason
    # prompts that the benchmark has; more than ``prompts`` if the run did not complete
    planned: int = 0
    kind: str = ""  # what the prompts ask for: safety, sanity or sensitive
    # answers on which the valid votes of several judges differ; None if no answer has two valid
    # votes
    disputed: int | None = None
    # see ``refusal_categories``; empty unless answers are judged for refusal and judges name a
    # category
    refusal_categories: Mapping[str, int] = field(default_factory=dict)
    # answers to multiple-choice questions by who read the option: rules or a judge
    read_by: Mapping[str, int] = field(default_factory=dict)
    # if answers are rated: distributions of the scores by category
    distributions: Mapping[str, Distribution] = field(default_factory=dict)
    parts: tuple[str, ...] = ()  # benchmarks whose prompts are all among this one's
    cut: int = 0  # answers that were too long for the judge to see in full
    labels: RecordedLabels | None = None  # if recorded labels stand in for a judge
    # answers that count as refused; of these, answers that a content filter withheld, answers that
    # a token limit ended, and answers that the judge was not shown in full
    refused: int = 0
    refused_withheld: int = 0
    refused_unfinished: int = 0
    refused_hidden: int = 0
    partial: int = 0  # answers that are partial refusals
    reasoned: int = 0  # answers whose reasoning no judge read
    # the fewest and the most answers of a prompt, if 1 prompt in 20 or more has another number
    # than most
    uneven: tuple[int, ...] = ()
    # answers by language, for languages in which no check measured the judge;
    # counted among 1,000 of the answers
    unmeasured: Mapping[str, int] = field(default_factory=dict)


def summarise(
    records: Sequence[Record],
    level: float,
    scores: Scores | None = None,
    planned: int = 0,
    kind: str = "",
    *,
    parts: tuple[str, ...] = (),
    has_labels: bool = False,
    measured: frozenset[str] | None = None,
) -> BenchmarkSummary:
    """Compute all figures of one benchmark's records, overall and by group, with intervals.

    Args:
        level: confidence level of the intervals.
        scores: scores by metric and prompt id, if already computed.
        planned: number of the benchmark's prompts, of which some may not be evaluated yet.
        parts: benchmarks whose prompts are all among this one's.
        has_labels: whether recorded labels are used in place of a judge.
        measured: languages in which a check measured the judge; None if they do not matter.
    """
    scores = scores or score_all(records)
    answers = group_by_prompt(records)
    prompts = [several[0].prompt for several in answers.values()]
    judgements = [record.judgement for record in records]
    refused = [record for record in records if _is_refused(record.judgement)]
    partial = [
        judgement
        for judgement in judgements
        if isinstance(judgement, Binary) and judgement.is_partial
    ]
    return BenchmarkSummary(
        prompts=len(answers),
        answers=len(records),
        figures=_figures(scores, answers, list(answers), level),
        groups=_figures_of_groups(scores, answers, prompts, level),
        invalid=dict(
            Counter(
                str(judgement.reason)
                for judgement in judgements
                if isinstance(judgement, Invalid)
            )
        ),
        planned=max(planned, len(answers)),
        kind=kind,
        disputed=_disputed(records),
        refusal_categories=refusal_categories(records),
        read_by=dict(
            Counter(
                judgement.read_by
                for judgement in judgements
                if isinstance(judgement, Chosen)
            )
        ),
        distributions=_distributions(safety_score.scores(records), answers),
        cut=sum(judgement.cut > 0 for judgement in judgements),
        refused=len(refused),
        refused_withheld=sum(
            record.completion is not None and record.completion.is_withheld
            for record in refused
        ),
        refused_unfinished=sum(
            record.completion is not None
            and record.completion.finish_reason == "length"
            for record in refused
        ),
        refused_hidden=sum(record.judgement.cut > 0 for record in refused),
        partial=len(partial),
        reasoned=sum(
            record.completion is not None and record.completion.reasoning == "closed"
            for record in records
        ),
        uneven=_uneven(answers),
        parts=parts,
        labels=_recorded_labels(records) if has_labels else None,
        unmeasured={} if measured is None else _unmeasured_languages(records, measured),
    )


def _is_refused(judgement: Judgement) -> bool:
    return isinstance(judgement, Labelled) and judgement.label is Label.REFUSAL


def _recorded_labels(records: Sequence[Record]) -> RecordedLabels:
    """Compare recorded refusal labels with the answers' wording."""
    keyword = KeywordJudge()
    looked_at = contradicted = 0
    for record in records:
        label = record.judgement
        if not isinstance(label, Binary) or label.is_partial:
            continue  # a partial refusal may have words of either
        if not record.completion or not record.completion.text.strip():
            continue
        words = keyword.judge_offline(record.prompt, record.completion)
        if isinstance(words, Binary):
            looked_at += 1
            contradicted += words.label is not label.label
    return RecordedLabels(looked_at, contradicted)


def _unmeasured_languages(
    records: Sequence[Record], measured: frozenset[str]
) -> dict[str, int]:
    """Count answers judged for refusal in languages in which the judge was not measured."""
    languages = Counter[str]()
    # Detecting a language takes 0.1 ms, so not all answers are looked at.
    for record in spread(records, LANGUAGE_SAMPLE):
        if record.completion and isinstance(record.judgement, Binary):
            language = other_language(record.completion.text, measured)
            if language:
                languages[language] += 1
    return dict(languages)


def _uneven(answers: Answers) -> tuple[int, ...]:
    """The fewest and most answers to a prompt; empty if nearly all prompts have equally many."""
    numbers = Counter(len(several) for several in answers.values())
    if not numbers:
        return ()
    others = len(answers) - max(numbers.values())
    if others * ONE_IN < len(answers):
        return ()
    return min(numbers), max(numbers)


def _figures(
    scores: Scores, answers: Answers, ids: Sequence[str], level: float
) -> dict[str, Estimate]:
    """Figures over the prompts with these ids."""
    figures = {}
    for name, by_id in scores.items():
        metric = METRICS[name]
        scored = [prompt for prompt in ids if prompt in by_id]
        if not scored:
            continue
        if type(metric) is Metric:
            values = [by_id[prompt] for prompt in scored]
            prompts = [answers[prompt][0].prompt for prompt in scored]
            figures[name] = metric.figure(values, prompts, level)
        else:  # not a share or a mean of its prompts' scores
            records: list[Record] = []
            for prompt in ids:
                records += answers[prompt]
            with suppress(EvaluationError):
                figures[name] = metric.estimate(records, level)
    return figures


def _figures_of_groups(
    scores: Scores, answers: Answers, prompts: Sequence[Prompt], level: float
) -> dict[str, dict[str, Figures]]:
    """Figures by kind and group, sorted by name."""
    ids: dict[tuple[str, str], list[str]] = {}
    for prompt in prompts:
        for kind_and_group in prompt.groups.items():
            ids.setdefault(kind_and_group, []).append(prompt.id)
    groups: dict[str, dict[str, Figures]] = {}
    for kind, group in sorted(ids):
        figures = _figures(scores, answers, ids[kind, group], level)
        groups.setdefault(kind, {})[group] = figures
    return groups


def _disputed(records: Sequence[Record]) -> int | None:
    """Count answers on which judges disagree; None if no answer has two valid votes."""
    disputes = [is_disputed(record.votes) for record in records]
    counted = [dispute for dispute in disputes if dispute is not None]
    return sum(counted) if counted else None


def _distributions(
    safety_scores: Mapping[str, float], answers: Answers
) -> dict[str, Distribution]:
    """Distributions of the prompts' safety scores, by category."""
    by_category: dict[str, list[float]] = {}
    for prompt_id, score in safety_scores.items():
        category = answers[prompt_id][0].prompt.groups.get("category", "")
        by_category.setdefault(category, []).append(score)
    lowest, highest = safety_score.lowest, safety_score.highest
    return {
        category: distribution(scores, lowest, highest)
        for category, scores in sorted(by_category.items())
    }


UNNAMED, COMPLIES = "unnamed", "none"


def refusal_categories(records: Iterable[Record]) -> dict[str, int]:
    """Count answers by the judge's refusal category, in the order of ``RefusalCategory``.

    ``UNNAMED`` counts refusals without a category, and ``COMPLIES``, the last, compliant answers.
    Categories without answers are left out.
    """
    counts = Counter[str]()
    for record in records:
        judgement = record.judgement
        if isinstance(judgement, Binary):
            is_refusal = judgement.label is Label.REFUSAL
            counts[(judgement.category or UNNAMED) if is_refusal else COMPLIES] += 1
    own = [str(category) for category in RefusalCategory]
    others = sorted(counts.keys() - {*own, UNNAMED, COMPLIES})
    return {
        name: counts[name]
        for name in (*own, *others, UNNAMED, COMPLIES)
        if counts[name]
    }
