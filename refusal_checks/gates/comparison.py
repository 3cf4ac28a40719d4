"""Compare a run with an earlier one, prompt by prompt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Record
from refusal_checks.gates.estimate_set import EstimateSet
from refusal_checks.gates.group_changes import (
    SAME,
    GroupChange,
    changes_by_group,
    in_order,
)
from refusal_checks.gates.offenders import Offender, offender
from refusal_checks.gates.score_files import PromptScores, Scores, fingerprint
from refusal_checks.metrics import Metric, by_prompt, metric_limits
from refusal_checks.metrics.statistics import paired
from refusal_checks.metrics.statistics.intervals import Estimate

Texts = Callable[[Prompt, Sequence[str]], Mapping[str, str]]
"""Finds the texts of a prompt's answers that are still stored, by content key."""


@dataclass(frozen=True)
class Earlier:
    """An earlier run of a benchmark.

    Attributes:
        differences: why it is not comparable, if the user overrides that.
        same_candidate: True if its candidate had the same name.
    """

    scores: Scores
    differences: tuple[str, ...] = ()
    texts: Texts = lambda prompt, keys: {}
    same_candidate: bool = False


@dataclass(frozen=True)
class Flip:
    """A prompt whose score in the gate's metric changed.

    Attributes:
        now: the prompt, with the answer that contributes most to the change.
        verdict_before: the most common verdict in the earlier run.
        answer_before: an earlier answer with that verdict, untrusted; None if it is not stored.
    """

    before: float
    after: float
    now: Offender
    verdict_before: str
    answer_before: str | None


@dataclass(frozen=True)
class Comparison:
    """The change of a gate's figure.

    Attributes:
        candidate, started: candidate and start of the earlier run.
        change: figure now minus figure then over the prompts of both runs, with an interval.
        lower, upper: one-sided bounds on the change at the confidence level, for comparison with
            the margins.
        lost, gained: see ``GroupChange``.
        of_prompts: True if they left and joined a share of prompts; False if their scores moved.
        p_flips: p-value of the exact McNemar test, for a share of independent prompts; else None.
        fell, rose: some of the prompts that changed, see ``in_order``.
        only_now, only_then, reworded, unscored: numbers of prompts that are not compared.
        differences, same_candidate: see ``Earlier``.
        doubtful: number of prompts that have an answer without a verdict in either run.
        worst: the bounds with such answers counted against each bound; None if there are none.
        name: the earlier candidate's short name, if known.
        looser: bounds of the gate that allow more than in the earlier run, in words.
        groups: the change by group, if there are several: see ``most_changed``.
    """

    candidate: str
    started: str
    change: Estimate
    lower: float
    upper: float
    lost: int
    gained: int
    of_prompts: bool
    p_flips: float | None
    fell: tuple[Flip, ...] = ()
    rose: tuple[Flip, ...] = ()
    only_now: int = 0
    only_then: int = 0
    reworded: int = 0
    unscored: int = 0
    differences: tuple[str, ...] = ()
    doubtful: int = 0
    worst: tuple[float, float] | None = None
    name: str = ""
    same_candidate: bool = False
    looser: tuple[str, ...] = ()
    groups: tuple[GroupChange, ...] = ()

    @property
    def one_sided(self) -> Estimate:
        return replace(self.change, lower=self.lower, upper=self.upper)


def compare(
    rate: EstimateSet, earlier: Earlier, *, level: float, limit: int, whole: bool
) -> Comparison | None:
    """Compare one figure by the judge's scores; None if the runs share no scored prompt.

    It lists at most ``limit`` prompts for each direction. If these are the ``whole`` records of the
    benchmark, it also counts missing prompts.
    """
    metric, then, now = rate.metric, earlier.scores.prompts, by_prompt(rate.records)
    shared = [name for name in now if name in then]
    same = [n for n in shared if then[n].prompt == fingerprint(now[n][0].prompt)]
    after = metric.scores(rate.records)
    both = [n for n in same if metric.name in then[n].scores and n in after]
    if not both:
        return None
    before = {name: then[name].scores[metric.name] for name in both}
    prompts = {name: now[name][0].prompt for name in both}
    units = metric.units(list(prompts.values()))
    old = metric.values(before[name] for name in both)
    new = metric.values(after[name] for name in both)
    values = dict(zip(both, zip(old, new, strict=True), strict=True))
    groups = changes_by_group(metric, prompts, values, level)

    # Prompts move by their values: of a share, only those that leave it or join it. Those whose
    # scores changed most come first.
    changes = {name: after[name] - before[name] for name in both}
    fell = [name for name, (was, is_now) in values.items() if is_now < was - SAME]
    rose = [name for name, (was, is_now) in values.items() if is_now > was + SAME]
    fell.sort(key=changes.__getitem__)
    rose.sort(key=lambda name: -changes[name])

    def flips(moved: Sequence[str], sign: int) -> tuple[Flip, ...]:
        listed = in_order(moved, prompts, groups, sign)[:limit]
        return tuple(
            _flip(metric, now[name], then[name], before[name], after[name], earlier)
            for name in listed
        )

    bounds = paired.mean_bounds(old, new, metric.span, level, units)
    doubtful, worst = _in_doubt(rate, after, {name: then[name] for name in same}, level)
    of_prompts = metric.counts_prompts([*old, *new])
    is_tested = of_prompts and units is None
    return Comparison(
        candidate=earlier.scores.candidate,
        started=earlier.scores.started,
        change=paired.difference(old, new, metric.span, level, units),
        lower=bounds.lower,
        upper=bounds.upper,
        lost=len(fell),
        gained=len(rose),
        of_prompts=of_prompts,
        p_flips=paired.mcnemar(len(fell), len(rose)) if is_tested else None,
        fell=flips(fell, -1),
        rose=flips(rose, 1),
        only_now=len(now) - len(shared),
        only_then=len(then) - len(shared) if whole else 0,
        reworded=len(shared) - len(same),
        unscored=len(same) - len(both),
        differences=earlier.differences,
        doubtful=doubtful,
        worst=worst,
        name=earlier.scores.title,
        same_candidate=earlier.same_candidate,
        groups=groups,
    )


def paired_change(
    metric: Metric, then: Scores, now: Scores, prompts: Sequence[Prompt], level: float
) -> Estimate | None:
    """The change of a figure over those of the prompts that both runs scored; None without any."""
    old, new, both = [], [], []
    for prompt in prompts:
        before, after = then.prompts.get(prompt.id), now.prompts.get(prompt.id)
        if not before or not after or before.prompt != after.prompt:
            continue
        if metric.name in before.scores and metric.name in after.scores:
            both.append(prompt)
            old.append(before.scores[metric.name])
            new.append(after.scores[metric.name])
    if not both:
        return None
    values = metric.values(old), metric.values(new)
    return paired.difference(*values, metric.span, level, metric.units(both))


def _flip(
    metric: Metric,
    answers: Sequence[Record],
    then: PromptScores,
    before: float,
    after: float,
    earlier: Earlier,
) -> Flip:
    verdicts = Counter(verdict for _, verdict in then.answers)
    usual = ""
    if verdicts:
        usual = verdicts.most_common(1)[0][0]
    keys = [key for key, verdict in then.answers if verdict == usual]
    texts = earlier.texts(answers[0].prompt, keys)
    stored = next((texts[key] for key in keys if key in texts), None)
    now = offender(metric, answers, lowest=after < before)
    return Flip(before, after, now, usual, stored)


def _in_doubt(
    rate: EstimateSet,
    scores: Mapping[str, float],
    then: Mapping[str, PromptScores],
    level: float,
) -> tuple[int, tuple[float, float] | None]:
    """Count prompts with unjudged answers, and bound the change however these are judged."""
    metric = rate.metric
    limits = {name: (score, score) for name, score in scores.items()}
    limits |= metric_limits(metric, rate.records)
    names = []
    # The least and the most of each prompt.
    old, new = [], []
    for name, scored in then.items():
        before = scored.limits_in(metric)
        if before and name in limits:
            low, high = sorted(metric.values(limits[name]))
            names.append(name)
            old.append(before)
            new.append((low, high))
    doubtful = sum(
        before[0] < before[1] or after[0] < after[1]
        for before, after in zip(old, new, strict=True)
    )
    if not doubtful:
        return 0, None
    prompts = {record.prompt.id: record.prompt for record in rate.records}
    units = metric.units([prompts[name] for name in names])
    old_lows, old_highs = zip(*old, strict=True)
    new_lows, new_highs = zip(*new, strict=True)
    most_fallen = paired.mean_bounds(old_highs, new_lows, metric.span, level, units)
    most_risen = paired.mean_bounds(old_lows, new_highs, metric.span, level, units)
    return doubtful, (most_fallen.lower, most_risen.upper)
