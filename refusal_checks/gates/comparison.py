"""A run compared with an earlier one, prompt by prompt, and the answers that a report shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from refusal_checks.core.prompts import Prompt
from refusal_checks.gates.gate import Use
from refusal_checks.gates.offenders import Offender, offender
from refusal_checks.gates.rates import EstimateSet
from refusal_checks.gates.score_files import PromptScores, Scores, fingerprint
from refusal_checks.judges.trust.correction import LEAST, corrected_change
from refusal_checks.metrics import Metric, by_prompt, metric_limits
from refusal_checks.metrics.statistics import paired
from refusal_checks.metrics.statistics.intervals import Estimate, unpaired_difference

Texts = Callable[[Prompt, Sequence[str]], Mapping[str, str]]
"""Finds the texts of a prompt's answers that are still stored, by content key."""


@dataclass(frozen=True)
class Earlier:
    """An earlier run of a benchmark."""

    scores: Scores
    differences: tuple[str, ...] = ()  # why it is not comparable, if that is overridden
    texts: Texts = lambda prompt, keys: {}
    same_candidate: bool = False  # the run had a candidate of this one's name
    anchor: Earlier | None = (
        None  # an older release, from which the total change counts
    )


@dataclass(frozen=True)
class Flip:
    """A prompt whose score in the gate's metric changed."""

    before: float
    after: float
    now: Offender  # the prompt with the answer that contributes most to the change
    verdict_before: str  # the most common earlier verdict
    # an earlier answer with that verdict, untrusted; None if it is not stored
    answer_before: str | None


@dataclass(frozen=True)
class GroupChange:
    """The change of a gate's figure over the prompts of one group."""

    kind: str
    group: str
    change: Estimate
    # as of `Comparison`
    lost: int
    gained: int

    def is_certain(self, sign: int) -> bool:
        """Whether the whole interval is below zero, for a sign of -1, or above, for 1."""
        return self.change.upper < 0 if sign < 0 else self.change.lower > 0


@dataclass(frozen=True)
class Comparison:
    """The change of a gate's figure."""

    # candidate, started: of the earlier run; name: the candidate's short name, if known
    candidate: str
    started: str
    change: Estimate  # figure now - figure then over the prompts of both runs, with an interval
    # one-sided bounds on the change at the confidence level, to compare with the margins
    lower: float
    upper: float
    # lost, gained: for a share, how many prompts left and joined it; for a mean, how many scores
    # fell and rose
    lost: int
    gained: int
    # of the exact McNemar test, for a share of independent prompts; else None
    p_flips: float | None
    # fell, rose: some of these prompts, see `in_order`
    fell: tuple[Flip, ...] = ()
    rose: tuple[Flip, ...] = ()
    # only_now, only_then, reworded, unscored: how many prompts are not compared
    only_now: int = 0
    only_then: int = 0
    reworded: int = 0
    unscored: int = 0
    # differences, same_candidate: see `Earlier`
    differences: tuple[str, ...] = ()
    doubtful: int = 0  # prompts with an answer without a verdict in one of the runs
    # the bounds with these counted against each bound; None without any
    worst: tuple[float, float] | None = None
    name: str = ""
    same_candidate: bool = False
    # why the change cannot be told, and what would tell it, if this run's figure rests on more than
    # its judge and the earlier run's does not; else empty
    missing: str = ""
    # bounds of the gate that allow more than they did in the earlier run, in words
    looser: tuple[str, ...] = ()
    # groups: of the prompts, where there are several: see `most_changed`
    groups: tuple[GroupChange, ...] = ()

    @property
    def one_sided(self) -> Estimate:
        return replace(self.change, lower=self.lower, upper=self.upper)

    def seen_as(
        self, rate: EstimateSet, then: Scores, gate: str, level: float
    ) -> Comparison:
        """The change of a figure that does not rest on the judge alone.

        A judge that errs differently on the two models hides a change, so it is compared as the
        level is known: by people's labels of the same prompts, where both runs have enough of them;
        by the calibration of the judge, where that is the same; else figure with figure, whose
        errors are added as if the runs were independent (conservative for the same prompts). The
        earlier run has its views by the gate's id.
        """
        if rate.used is None:
            return self
        metric = rate.metric
        is_single = all(record.sample == 0 for record in rate.records)
        prompts = {
            name: answers[0].prompt for name, answers in by_prompt(rate.records).items()
        }
        before = {
            name: each.people[metric.name]
            for name, each in then.prompts.items()
            if metric.name in each.people and name in rate.people
        }
        both = [
            name
            for name in before
            if then.prompts[name].prompt == fingerprint(prompts[name])
        ]
        if len(both) >= LEAST:
            old, new = (
                metric.values(of[name] for name in both) for of in (before, rate.people)
            )
            units = metric.units([prompts[name] for name in both])
            change = paired.difference(old, new, metric.span, level, units)
            bounds = paired.mean_bounds(old, new, metric.span, level, units)
            lower, upper = bounds.lower, bounds.upper
        elif (
            rate.used.errors and rate.used.errors == then.errors.get(gate) and is_single
        ):
            change = corrected_change(self.one_sided, rate.used.errors, level)
            lower, upper = change.lower, change.upper
        else:  # two figures that are both people's, or both the second judge's
            is_cascade, views = rate.used.use == "cascade", then.views.get(gate, {})
            known = [
                view for use, view in views.items() if (use == "cascade") is is_cascade
            ]
            if not known:
                return replace(self, missing=_MISSING[rate.used.use])
            change = unpaired_difference(known[0], rate.used.estimate)
            one_sided = NormalDist().inv_cdf(level) / NormalDist().inv_cdf(
                (1 + level) / 2
            )
            lower = change.value - one_sided * (change.value - change.lower)
            upper = change.value + one_sided * (change.upper - change.value)
        low, high = self.worst or (self.lower, self.upper)
        worst = self.worst and (lower + low - self.lower, upper + high - self.upper)
        return replace(
            self, change=change, lower=lower, upper=upper, p_flips=None, worst=worst
        )


_MISSING: Mapping[Use, str] = {
    "human": "label a sample of the earlier run's answers too, run it again with --human-labels "
    "and accept it as the baseline",
    "corrected": "run the earlier model again with a calibration and accept it as the baseline",
    "cascade": "run the earlier model again with the same two judges and accept it as the baseline",
}
"""What makes two runs comparable, by what only the later one's figure rests on."""


def compare(
    rate: EstimateSet, earlier: Earlier, *, level: float, limit: int, whole: bool
) -> Comparison | None:
    """Compare one figure; None if the runs share no scored prompt.

    At most ``limit`` prompts are listed for each direction. If these are the ``whole`` records of
    the benchmark, missing prompts can be counted.
    """
    metric, then, now = rate.metric, earlier.scores.prompts, by_prompt(rate.records)
    known = [name for name in now if name in then]
    same = [
        name for name in known if then[name].prompt == fingerprint(now[name][0].prompt)
    ]
    # A change rests on the judge's scores, whatever view decides: an earlier run keeps no others.
    own = metric.name
    before = {
        name: each.scores[own] for name, each in then.items() if own in each.scores
    }
    after = metric.scores(rate.records)
    both = [name for name in same if name in before and name in after]
    if not both:
        return None
    old, new = (
        metric.values(scores[name] for name in both) for scores in (before, after)
    )
    changes = {name: after[name] - before[name] for name in both}
    signs = changes
    if metric.counts is not None:
        signs = {name: b - a for name, a, b in zip(both, old, new, strict=True)}
    fell = sorted(
        (name for name in both if signs[name] < -1e-8), key=changes.__getitem__
    )
    rose = sorted(
        (name for name in both if signs[name] > 1e-8), key=lambda n: -changes[n]
    )
    prompts = {name: now[name][0].prompt for name in both}
    groups = _by_group(
        metric, prompts, dict(zip(both, zip(old, new, strict=True), strict=True)), level
    )
    fell, rose = in_order(fell, prompts, groups, -1), in_order(rose, prompts, groups, 1)
    units = metric.units([*prompts.values()])
    bounds = paired.mean_bounds(old, new, metric.span, level, units)
    doubtful, worst = _worst(rate, after, {name: then[name] for name in same}, level)

    def flip(name: str) -> Flip:
        given, prompt = then[name].answers, now[name][0].prompt
        verdicts = Counter(verdict for _, verdict in given)
        usual = verdicts.most_common(1)[0][0] if verdicts else ""
        keys = [key for key, verdict in given if verdict == usual]
        texts = earlier.texts(prompt, keys)
        text = next((texts[key] for key in keys if key in texts), None)
        lowest = after[name] < before[name]
        return Flip(
            before[name], after[name], offender(metric, now[name], lowest), usual, text
        )

    is_share = metric.counts is not None and units is None
    return Comparison(
        candidate=earlier.scores.candidate,
        started=earlier.scores.started,
        change=paired.difference(old, new, metric.span, level, units),
        lower=bounds.lower,
        upper=bounds.upper,
        lost=len(fell),
        gained=len(rose),
        p_flips=paired.mcnemar(len(fell), len(rose)) if is_share else None,
        fell=tuple(map(flip, fell[:limit])),
        rose=tuple(map(flip, rose[:limit])),
        only_now=len(now) - len(known),
        only_then=len(then) - len(known) if whole else 0,
        reworded=len(known) - len(same),
        unscored=len(same) - len(both),
        differences=earlier.differences,
        doubtful=doubtful,
        worst=worst,
        name=earlier.scores.title,
        same_candidate=earlier.same_candidate,
        groups=groups,
    )


def _by_group(
    metric: Metric,
    prompts: Mapping[str, Prompt],
    values: Mapping[str, tuple[float, float]],
    level: float,
) -> tuple[GroupChange, ...]:
    """The change in each group of prompts, by values before and after; by category first.

    Of each kind of group of which there are several, in the prompts' order.
    """
    kinds = dict.fromkeys(kind for prompt in prompts.values() for kind in prompt.groups)
    found = []
    for kind in sorted(kinds, key="category".__ne__):
        members: dict[str, list[str]] = {}
        for name, prompt in prompts.items():
            if group := prompt.groups.get(kind):
                members.setdefault(group, []).append(name)
        if len(members) < 2:
            continue
        for group, names in members.items():
            old, new = zip(*(values[name] for name in names), strict=True)
            units = metric.units([prompts[name] for name in names])
            change = paired.difference(old, new, metric.span, level, units)
            lost = sum(
                after < before - 1e-8 for before, after in zip(old, new, strict=True)
            )
            gained = sum(
                after > before + 1e-8 for before, after in zip(old, new, strict=True)
            )
            found.append(GroupChange(kind, group, change, lost, gained))
    return tuple(found)


def most_changed(groups: Iterable[GroupChange], sign: int) -> list[GroupChange]:
    """Groups by how far they certainly fell (a sign of -1) or rose (1), the farthest first.

    That is by the end of the interval that is nearer to no change, then by the change itself. They
    are of one kind, that of the group that changed most: a category, or a language.
    """

    def size(group: GroupChange) -> tuple[float, float]:
        nearer = group.change.upper if sign < 0 else group.change.lower
        return sign * nearer, sign * group.change.value

    ranked = sorted(groups, key=size, reverse=True)
    return [group for group in ranked if group.kind == ranked[0].kind]


def in_order(
    names: Sequence[str],
    prompts: Mapping[str, Prompt],
    groups: Sequence[GroupChange],
    sign: int,
) -> list[str]:
    """Prompts that moved, as all reports list them: spread over the groups, most changed first.

    One of each group in turn. Groups that may have changed by chance alone come after all others.
    Within a group the order stays.
    """
    ranked = most_changed(groups, sign)
    if not ranked:
        return [*names]
    rank = {group.group: number for number, group in enumerate(ranked)}
    is_certain = {group.group: group.is_certain(sign) for group in ranked}
    turns = Counter[str]()
    places = {}
    for name in names:
        group = prompts[name].groups.get(ranked[0].kind, "")
        turns[group] += 1
        places[name] = (
            not is_certain.get(group),
            turns[group],
            rank.get(group, len(rank)),
        )
    return sorted(names, key=places.__getitem__)


def _worst(
    rate: EstimateSet,
    scores: Mapping[str, float],
    then: Mapping[str, PromptScores],
    level: float,
) -> tuple[int, tuple[float, float] | None]:
    """How many prompts are in doubt, and bounds that hold however their answers are judged."""
    metric, pairs = rate.metric, {}
    found = {name: (score, score) for name, score in scores.items()}
    found |= metric_limits(metric, rate.records)
    for name, each in then.items():
        before = each.limits_in(metric)
        if before and name in found:
            values = metric.values(found[name])
            pairs[name] = before, (min(values), max(values))
    doubtful = sum(old[0] < old[1] or new[0] < new[1] for old, new in pairs.values())
    if not doubtful:
        return 0, None
    prompts = {record.prompt.id: record.prompt for record in rate.records}
    units = metric.units([prompts[name] for name in pairs])
    olds, news = zip(*pairs.values(), strict=True)
    (least, most), (low, high) = (zip(*ends, strict=True) for ends in (olds, news))
    lower = paired.mean_bounds(most, low, metric.span, level, units).lower
    return doubtful, (
        lower,
        paired.mean_bounds(least, high, metric.span, level, units).upper,
    )
