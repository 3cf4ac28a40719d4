"""A run against an earlier one, prompt by prompt."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Record
from refusal_checks.gates.baseline import PromptScores, Scores, fingerprint
from refusal_checks.gates.checks import AllowedRange, Check
from refusal_checks.gates.offenders import Offender, offender
from refusal_checks.metrics import Metric, by_prompt
from refusal_checks.metrics.statistics import paired
from refusal_checks.metrics.statistics.intervals import Estimate

Texts = Callable[[Prompt, Sequence[str]], Mapping[str, str]]
"""The answers to a prompt that are still to be had, by content key."""


@dataclass(frozen=True)
class Earlier:
    """An earlier run of a benchmark.

    Attributes:
        differences: why it is not comparable, where that is overridden.
        texts: looks its answers up.
    """

    scores: Scores
    differences: tuple[str, ...] = ()
    texts: Texts = lambda prompt, keys: {}


@dataclass(frozen=True)
class Flip:
    """A prompt that moved.

    Attributes:
        before, after: its score in the gate's metric.
        now: the prompt with the answer that shows the move most.
        answer_before: an earlier answer with the most common earlier verdict, untrusted text;
            None where it is not to be had any more.
    """

    before: float
    after: float
    now: Offender
    verdict_before: str
    answer_before: str | None


@dataclass(frozen=True)
class Comparison:
    """What changed in a gate's figure.

    Attributes:
        candidate, started: of the earlier run.
        change: figure now - figure then over the prompts of both, with a paired bootstrap
            interval.
        lower, upper: one-sided bounds of the change at the confidence level; what the margins are
            compared with.
        lost, gained: for a share, how many prompts left it and how many joined it; for a mean,
            how many scores fell and how many rose.
        p_flips: of the exact McNemar test, for a share; None for a mean.
        fell, rose: some of these prompts, the largest moves first.
        only_now, only_then: prompts that one run alone has; reworded: whose text is another, which
            are not compared; unscored: without a score in one of the runs.
        differences: why the runs are not comparable, where that is overridden.
    """

    candidate: str
    started: str
    change: Estimate
    lower: float
    upper: float
    lost: int
    gained: int
    p_flips: float | None
    fell: tuple[Flip, ...] = ()
    rose: tuple[Flip, ...] = ()
    only_now: int = 0
    only_then: int = 0
    reworded: int = 0
    unscored: int = 0
    differences: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Pairs:
    """The scores of the prompts that both runs have, by prompt id."""

    before: Mapping[str, float]
    after: Mapping[str, float]


def compare(
    metric: Metric,
    records: Sequence[Record],
    earlier: Earlier,
    *,
    level: float,
    limit: int,
    whole: bool,
) -> Comparison | None:
    """Compare one figure; None where the runs have no scored prompt in common.

    Args:
        records: those that the figure is of.
        limit: most prompts to name for each direction.
        whole: whether these are all of the benchmark's, so that prompts that are gone can be told.
    """
    then, now = earlier.scores.prompts, by_prompt(records)
    same = [id for id in now if id in then and then[id].prompt == fingerprint(now[id][0].prompt)]
    pairs = _pairs(metric, records, then, same)
    if not pairs.before:
        return None
    before, after = (metric.values(found.values()) for found in (pairs.before, pairs.after))
    span = metric.highest - metric.lowest
    fell, rose = _moves(metric, pairs)
    lost, gained = len(fell), len(rose)
    limits = (
        paired.share_bounds(lost, gained, len(before), level)
        if metric.counts is not None
        else paired.mean_bounds(before, after, span, level)
    )
    known = len(set(now) & set(then))
    return Comparison(
        candidate=earlier.scores.candidate,
        started=earlier.scores.started,
        change=paired.difference(before, after, span, level),
        lower=limits.lower,
        upper=limits.upper,
        lost=lost,
        gained=gained,
        p_flips=paired.mcnemar(lost, gained) if metric.counts is not None else None,
        fell=tuple(_flip(metric, id, pairs, now, earlier) for id in fell[:limit]),
        rose=tuple(_flip(metric, id, pairs, now, earlier) for id in rose[:limit]),
        only_now=len(now) - known,
        only_then=len(then) - known if whole else 0,
        reworded=known - len(same),
        unscored=len(same) - len(before),
        differences=earlier.differences,
    )


def check(comparison: Comparison, limits: AllowedRange, metric: Metric, level: float) -> Check:
    """Whether the change keeps to its margins: a non-inferiority test at the confidence level.

    It passes where the one-sided bound of the change is within the margin, is breached where the
    other bound is beyond it, and open otherwise.
    """
    change = comparison.change.value
    return Check(
        outcome=limits.outcome(comparison.lower, comparison.upper),
        met=limits.holds(change),
        by_point=False,
        p_breach=_p_breach(comparison, limits, metric, level),
    )


def _p_breach(comparison: Comparison, limits: AllowedRange, metric: Metric, level: float) -> float:
    change = comparison.change.value
    if limits.holds(change):
        return 1.0
    margin = limits.nearest(change)
    if metric.counts is not None:
        z = float(paired.tango(comparison.lost, comparison.gained, comparison.change.n, margin))
        return NormalDist().cdf(-abs(z))
    end = comparison.upper if change < margin else comparison.lower
    error = abs(end - change) / NormalDist().inv_cdf(level)
    return NormalDist().cdf(-abs(change - margin) / error) if error > 0 else 0.0


def _pairs(
    metric: Metric,
    records: Sequence[Record],
    then: Mapping[str, PromptScores],
    ids: Sequence[str],
) -> _Pairs:
    scores = metric.scores(records)
    both = [id for id in ids if id in scores and metric.name in then[id].scores]
    return _Pairs(
        {id: then[id].scores[metric.name] for id in both}, {id: scores[id] for id in both}
    )


def _moves(metric: Metric, pairs: _Pairs) -> tuple[list[str], list[str]]:
    """The prompts that fell and those that rose, the largest moves first."""
    moves = {id: pairs.after[id] - pairs.before[id] for id in pairs.before}
    if metric.counts is not None:
        was, is_ = (metric.values(found.values()) for found in (pairs.before, pairs.after))
        signs = dict(zip(moves, (b - a for a, b in zip(was, is_, strict=True)), strict=True))
    else:
        signs = {id: 0.0 if math.isclose(m, 0, abs_tol=1e-8) else m for id, m in moves.items()}
    fell = sorted((id for id in moves if signs[id] < 0), key=lambda id: moves[id])
    rose = sorted((id for id in moves if signs[id] > 0), key=lambda id: -moves[id])
    return fell, rose


def _flip(
    metric: Metric,
    id: str,
    pairs: _Pairs,
    now: Mapping[str, Sequence[Record]],
    earlier: Earlier,
) -> Flip:
    before, after = pairs.before[id], pairs.after[id]
    answers = earlier.scores.prompts[id].answers
    verdicts = Counter(verdict for _, verdict in answers)
    usual = verdicts.most_common(1)[0][0] if verdicts else ""
    keys = [key for key, verdict in answers if verdict == usual]
    texts = earlier.texts(now[id][0].prompt, keys)
    text = next((texts[key] for key in keys if key in texts), None)
    return Flip(before, after, offender(metric, now[id], after < before), usual, text)
