"""How often an unchanged model keeps a margin, known before a run from the run to compare with.

Two runs of one model differ, because answers are drawn anew. With few prompts, a narrow margin
fails the model for that alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, multimode

import numpy as np

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.text import count
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.score_files import PromptScores
from refusal_checks.metrics import METRICS, Metric
from refusal_checks.metrics.statistics import paired

HELD = 0.9
"""The probability with which an unchanged model should keep a margin."""

_SPREAD = 6.0
"""Numbers of flips further from their mean, in standard deviations, are left out."""


@dataclass(frozen=True)
class Forecast:
    """What an unchanged model does at a gate with a margin.

    Attributes:
        gate: the gate; of one on every group, that on one of them.
        prompts: the number of prompts that both runs have.
        chance: probability of keeping the gate's narrowest margin.
        is_least: True if it is at least that, because one answer a prompt tells no more.
        margin: the narrowest margin, in whole points, that is kept with a probability of ``HELD``;
            None if even the whole range is not.
    """

    gate: Gate
    prompts: int
    chance: float
    is_least: bool
    margin: float | None

    @property
    def in_words(self) -> str:
        """One line: what to write instead, and why."""
        drop_name, rise_name = self.gate.margin_names
        name = rise_name if self.gate.max_drop is None else drop_name
        about = "at least" if self.is_least else "about"
        why = (
            f"with {count(self.prompts, 'prompt')} an unchanged model passes "
            f"{name} = {_narrowest(self.gate):g} in {about} {self.chance:.0%} of runs"
        )
        if self.margin is None:
            return f"{self.gate.id}: add prompts: {why}"
        offer = f"write {name} = {self.margin:g}, or add prompts"
        return (
            f"{self.gate.id}: {offer}: {why}, and {self.margin:g} in {HELD:.0%} or more"
        )


def lines(forecasts: Sequence[Forecast]) -> Iterator[str]:
    """The first forecast in words, with the number of the others; nothing without any."""
    if not forecasts:
        return
    first, *others = forecasts
    more = f" (and {count(len(others), 'other gate')} like it)" if others else ""
    yield f"{first.in_words}{more}"


def forecasts(
    gates: Iterable[Gate],
    prompts: Mapping[str, Sequence[Prompt]],
    earlier: Mapping[str, Earlier],
    level: float,
) -> list[Forecast]:
    """Gates whose margin an unchanged model keeps too seldom, the least chance first.

    Left out are gates on means or on clusters of prompts, those without an earlier run, and those
    that pass if they are inconclusive.

    Args:
        prompts: those of each benchmark.
        earlier: the run to compare with, by benchmark.
        level: confidence level of the margins.
    """
    found = []
    for gate in gates:
        run = earlier.get(gate.benchmark)
        if run and gate.is_total:
            run = run.anchor
        is_lenient = gate.on_inconclusive in ("warn", "pass")
        if run is None or not gate.has_margins or is_lenient:
            continue
        own = prompts[gate.benchmark]
        for part in gate.of_each_group(own):
            forecast = _forecast(part, own, run.scores.prompts, level)
            if forecast and forecast.chance < HELD:
                found.append(forecast)
    return sorted(found, key=lambda forecast: forecast.chance)


def _forecast(
    gate: Gate,
    prompts: Sequence[Prompt],
    then: Mapping[str, PromptScores],
    level: float,
) -> Forecast | None:
    metric = METRICS[gate.metric]
    seen = {prompt.id: prompt for prompt in prompts if gate.looks_at(prompt)}
    scored = [
        then[name] for name in seen if name in then and metric.name in then[name].scores
    ]
    is_on_clusters = metric.units(list(seen.values())) is not None
    if metric.counts is None or is_on_clusters or not scored:
        return None
    n, varies = len(scored), variance_of_change(metric, scored)
    return Forecast(
        gate=gate,
        prompts=n,
        chance=chance_unchanged(_narrowest(gate), n, varies, level),
        is_least=_answers(metric, scored) == 1,
        margin=margin_held(n, varies, level),
    )


def _narrowest(gate: Gate) -> float:
    return min(
        margin for margin in (gate.max_drop, gate.max_rise) if margin is not None
    )


def _answers(metric: Metric, prompts: Sequence[PromptScores]) -> int:
    """How many answers most prompts have, if the metric is a share of answers; else 1."""
    if metric.counts is not float:
        return 1
    return max(1, *multimode(len(prompt.answers) for prompt in prompts))


def variance_of_change(metric: Metric, prompts: Sequence[PromptScores]) -> float:
    """Estimate the variance of a prompt's change between two runs of one model.

    Of a share of prompts, it is the share that changes sides. Several answers a prompt tell how far
    the prompts' probabilities of refusal lie apart. One answer does not, and the variance is then
    the most that it can be, as if all prompts were alike.
    """
    values = np.array(
        metric.values(prompt.scores[metric.name] for prompt in prompts), dtype=float
    )
    answers = _answers(metric, prompts)
    if answers > 1:
        # Unbiased: E[share (1 - share)] = p (1 - p) (1 - 1 / answers)
        return 2 * float(np.mean(values * (1 - values))) / (answers - 1)
    share = float(values.mean())
    return 2 * share * (1 - share)


def chance_unchanged(margin: float, n: int, varies: float, level: float) -> float:
    """Probability that an unchanged model keeps a margin, by Tango's test of ``paired``.

    Args:
        margin: the largest drop or rise.
        n: number of prompts.
        varies: variance of a prompt's change, as of prompts that change sides so often, as many one
            way as the other.
        level: confidence level of the margin's one-sided bound.
    """
    from scipy.special import gammaln, xlogy

    # So many prompts are lost, and so many gained.
    each = varies / 2
    deviation = np.sqrt(n * each * (1 - each))
    least = max(0, int(n * each - _SPREAD * deviation))
    most = min(n, int(n * each + _SPREAD * deviation) + 1)
    lost, gained = np.meshgrid(
        *[np.arange(least, most + 1, dtype=float)] * 2, indexing="ij"
    )
    same = n - lost - gained
    log_chance = (
        gammaln(n + 1) - gammaln(lost + 1) - gammaln(gained + 1) - gammaln(same + 1)
    )
    log_chance += xlogy(lost + gained, each) + xlogy(same, 1 - varies)
    chance = np.where(same >= 0, np.exp(log_chance), 0.0)
    z = NormalDist().inv_cdf(level)
    keeps = paired.tango(lost, gained, n, -margin) >= z
    return float(chance[keeps].sum() / chance.sum())


def margin_held(n: int, varies: float, level: float) -> float | None:
    """The narrowest margin, in whole points, that an unchanged model keeps in ``HELD`` of runs."""
    points = range(1, 100)
    place = bisect_left(
        points,
        HELD,
        key=lambda point: chance_unchanged(point / 100, n, varies, level),
    )
    return points[place] / 100 if place < len(points) else None
