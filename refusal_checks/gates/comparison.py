"""Compare a run with an earlier one, prompt by prompt and group by group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Record
from refusal_checks.gates.failing_prompts import FailingPrompt, failing_prompt
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.score_files import PromptScores, Scores, fingerprint
from refusal_checks.metrics import METRICS, Metric, group_by_prompt, metric_limits
from refusal_checks.metrics.statistics import paired
from refusal_checks.metrics.statistics.intervals import Estimate

SAME = 1e-8
"""With a smaller difference, two values of a prompt are equal: score files keep nine digits."""

Texts = Callable[[Prompt, Sequence[str]], Mapping[str, str]]
"""Finds the texts of a prompt's answers that are still stored, by content key."""


@dataclass(frozen=True)
class Earlier:
    """An earlier run of a benchmark.

    Attributes:
        differences: why it is not comparable, if the user compares anyway.
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
    now: FailingPrompt
    verdict_before: str
    answer_before: str | None


@dataclass(frozen=True)
class GroupChange:
    """The change of a gate's figure over the prompts of one group.

    Attributes:
        lost, gained: for a share of prompts, how many left or joined it; else how many scores fell
            or rose.
    """

    kind: str
    group: str
    change: Estimate
    lost: int
    gained: int

    def is_certain(self, sign: int) -> bool:
        """True if the whole interval is below zero (``sign`` -1) or above it (``sign`` 1)."""
        return self.change.upper < 0 if sign < 0 else self.change.lower > 0


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
        fell, rose: some of the prompts that changed, the largest changes first.
        differences, same_candidate: see ``Earlier``.
        worst: the bounds with the answers that have no verdict, in either run, counted against each
            bound; None if there are none.
        name: the earlier candidate's short name, if known.
        looser: bounds of the gate that allow more than in the earlier run, in words.
        groups: the change by group, if there are several: see ``rank_changes``.
    """

    candidate: str
    started: str
    change: Estimate
    lower: float
    upper: float
    lost: int
    gained: int
    of_prompts: bool
    fell: tuple[Flip, ...] = ()
    rose: tuple[Flip, ...] = ()
    differences: tuple[str, ...] = ()
    worst: tuple[float, float] | None = None
    name: str = ""
    same_candidate: bool = False
    looser: tuple[str, ...] = ()
    groups: tuple[GroupChange, ...] = ()


def compare(
    gate: Gate, records: Sequence[Record], earlier: Earlier, level: float, limit: int
) -> Comparison | None:
    """Compare a gate's figure by the judge's scores; None if the runs share no scored prompt.

    It lists at most ``limit`` prompts for each direction.
    """
    metric, then, now = (
        METRICS[gate.metric],
        earlier.scores.prompts,
        group_by_prompt(records),
    )
    # Prompts whose text changed under the same id are other prompts. Pairs of the same prompts have
    # far narrower intervals than two independent figures.
    same = [
        name
        for name, answers in now.items()
        if name in then and then[name].prompt == fingerprint(answers[0].prompt)
    ]
    after = metric.scores(records)
    both = [n for n in same if metric.name in then[n].scores and n in after]
    if not both:
        return None
    before = {name: then[name].scores[metric.name] for name in both}
    prompts = {name: now[name][0].prompt for name in both}
    units = metric.units(list(prompts.values()))
    old = metric.values(before[name] for name in both)
    new = metric.values(after[name] for name in both)
    values = dict(zip(both, zip(old, new, strict=True), strict=True))

    # Prompts move by their values: of a share, only those that leave it or join it.
    # By scores, which tell more than values: of a share, all values that move do so by 1.
    moves = {name: after[name] - before[name] for name in both}
    largest = sorted(both, key=lambda name: -abs(moves[name]))
    fell = [name for name in largest if values[name][1] < values[name][0] - SAME]
    rose = [name for name in largest if values[name][1] > values[name][0] + SAME]

    def flips(moved: Sequence[str]) -> tuple[Flip, ...]:
        return tuple(
            _flip(metric, now[name], then[name], before[name], after[name], earlier)
            for name in moved[:limit]
        )

    # Two intervals: the two-sided one is shown; margins ask about one direction each.
    bounds = paired.mean_bounds(old, new, metric.span, level, units)
    return Comparison(
        candidate=earlier.scores.candidate,
        started=earlier.scores.started,
        change=paired.difference(old, new, metric.span, level, units),
        lower=bounds.lower,
        upper=bounds.upper,
        lost=len(fell),
        gained=len(rose),
        of_prompts=metric.counts_prompts([*old, *new]),
        fell=flips(fell),
        rose=flips(rose),
        differences=earlier.differences,
        worst=_worst_case_bounds(metric, now, after, {n: then[n] for n in same}, level),
        name=earlier.scores.title,
        same_candidate=earlier.same_candidate,
        groups=changes_by_group(metric, prompts, values, level),
    )


def paired_change(
    metric: Metric, then: Scores, now: Scores, prompts: Sequence[Prompt], level: float
) -> Estimate | None:
    """The change of a figure over the prompts that both runs scored; None if there are none."""
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
    # An answer with the usual verdict then, beside the one that moved most now: what changed.
    verdicts = Counter(verdict for _, verdict in then.answers)
    usual = ""
    if verdicts:
        usual = verdicts.most_common(1)[0][0]
    keys = [key for key, verdict in then.answers if verdict == usual]
    texts = earlier.texts(answers[0].prompt, keys)
    stored = next((texts[key] for key in keys if key in texts), None)
    now = failing_prompt(metric, answers, lowest=after < before)
    return Flip(before, after, now, usual, stored)


def _worst_case_bounds(
    metric: Metric,
    now: Mapping[str, Sequence[Record]],
    scores: Mapping[str, float],
    then: Mapping[str, PromptScores],
    level: float,
) -> tuple[float, float] | None:
    """Bound the change for any verdicts on unjudged answers; None if they change no score."""
    # The pairs that move the figure down the most, then up: each prompt at the end of its range
    # that is better for the earlier run and worse for this one, and the reverse.
    limits = {name: (score, score) for name, score in scores.items()}
    limits |= metric_limits(metric, [r for answers in now.values() for r in answers])
    prompts = []
    old, new = [], []  # the least and the most of each prompt
    for name, scored in then.items():
        before = scored.limits_in(metric)
        if before and name in limits:
            prompts.append(now[name][0].prompt)
            old.append(before)
            low, high = sorted(metric.values(limits[name]))
            new.append((low, high))
    if all(low == high for low, high in (*old, *new)):
        return None
    units = metric.units(prompts)
    old_lows, old_highs = zip(*old, strict=True)
    new_lows, new_highs = zip(*new, strict=True)
    most_fallen = paired.mean_bounds(old_highs, new_lows, metric.span, level, units)
    most_risen = paired.mean_bounds(old_lows, new_highs, metric.span, level, units)
    return most_fallen.lower, most_risen.upper


def changes_by_group(
    metric: Metric,
    prompts: Mapping[str, Prompt],
    values: Mapping[str, tuple[float, float]],
    level: float,
) -> tuple[GroupChange, ...]:
    """The change in each group of prompts, from values before and after; categories first.

    It covers each kind with at least two groups, in the prompts' order.
    """
    kinds = dict.fromkeys(kind for prompt in prompts.values() for kind in prompt.groups)
    changes = []
    for kind in sorted(kinds, key="category".__ne__):  # False sorts first
        members: dict[str, list[str]] = {}
        for name, prompt in prompts.items():
            group = prompt.groups.get(kind)
            if group:
                members.setdefault(group, []).append(name)
        if len(members) < 2:  # its change would be the whole benchmark's
            continue
        for group, names in members.items():
            old, new = zip(*(values[name] for name in names), strict=True)
            units = metric.units([prompts[name] for name in names])
            change = paired.difference(old, new, metric.span, level, units)
            pairs = list(zip(old, new, strict=True))
            lost = sum(after < before - SAME for before, after in pairs)
            gained = sum(after > before + SAME for before, after in pairs)
            changes.append(GroupChange(kind, group, change, lost, gained))
    return tuple(changes)


def rank_changes(groups: Iterable[GroupChange], sign: int) -> list[GroupChange]:
    """Groups that clearly fell (``sign`` -1) or rose (1), the largest change first.

    They are sorted by the interval's end that is nearer to zero, then by the change itself. They
    are all of one kind, that of the group that changed most, for example a category or a language.
    """

    # By the change that is certain, since a small group's own figure may be large by chance.
    def size(group: GroupChange) -> tuple[float, float]:
        nearer = group.change.upper if sign < 0 else group.change.lower
        return sign * nearer, sign * group.change.value

    ranked = sorted(groups, key=size, reverse=True)
    return [group for group in ranked if group.kind == ranked[0].kind]
