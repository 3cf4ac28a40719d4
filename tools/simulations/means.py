"""How often intervals and margins of means are wrong: see ``docs/explanation/measurements.md``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refusal_checks.core.prompts import Prompt
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics.intervals import Estimate, bounded_mean
from refusal_checks.metrics.statistics.paired import mean_bounds

SIZES = (20, 50, 100, 200, 450)
LIMITS = (10, 20, 50, 100, 200)
RUNS = 400

Numbers = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Numbers]
Answer = Callable[[np.random.Generator, Numbers], Numbers]


class Kind(NamedTuple):
    """The distribution of scores on a kind of prompt.

    Attributes:
        prompts: function that draws prompts, each as one number; answers: function that draws their
            scores.
        mean: of all scores; lowest, highest: their range.
        lost: share of prompts whose score falls to ``bad`` in a worse candidate; the drop of the
            mean is the margin.
    """

    prompts: Draw
    answers: Answer
    mean: float
    lowest: float
    highest: float
    lost: float
    bad: float

    @property
    def margin(self) -> float:
        """The smallest drop that is not allowed."""
        return self.lost * (self.mean - self.bad)


def yes_no(rng: np.random.Generator, prompts: Numbers) -> Numbers:
    """One answer, right or wrong; one in fifty changes from run to run."""
    return np.where(rng.random(prompts.size) < 0.02, 1 - prompts, prompts)


def of_five(rng: np.random.Generator, prompts: Numbers) -> Numbers:
    """Refusal confidence of five answers of equal likelihood."""
    return np.asarray(2 * rng.binomial(5, prompts) / 5 - 1)


def rating(rng: np.random.Generator, prompts: Numbers) -> Numbers:
    """A safety score that hardly changes from run to run."""
    return prompts + rng.uniform(-0.05, 0.05, prompts.size)


def shares(share: float) -> Draw:
    """Prompts that are 1 with this share, else 0."""
    return lambda rng, n: (rng.random(n) < share).astype(float)


def mixed(part: float, first: tuple[float, float], second: tuple[float, float]) -> Draw:
    """Prompts of two groups, each uniform in a range; the first group has this share."""
    return lambda rng, n: np.where(
        rng.random(n) < part, rng.uniform(*first, n), rng.uniform(*second, n)
    )


KINDS = {
    "`accuracy` 90%, K = 1": Kind(shares(0.9), yes_no, 0.884, 0, 1, 0.05 / 0.884, 0),
    "valid answers 98%, K = 1": Kind(shares(1.0), yes_no, 0.98, 0, 1, 0.02 / 0.98, 0),
    "confidence, K = 5, most refuse": Kind(
        mixed(0.1, (0.4, 0.6), (0.98, 1.0)), of_five, 0.882, -1, 1, 0.05, -1
    ),
    "confidence, K = 5, all kinds": Kind(
        mixed(0.5, (0, 0.5), (0.5, 1)), of_five, 0, -1, 1, 0.1, -1
    ),
    "`safety_score`, 1 in 20 bad": Kind(
        mixed(0.05, (0.1, 2), (4.8, 4.95)), rating, 4.68375, 0, 5, 0.04, 0.1
    ),
    "`safety_score`, half bad": Kind(
        mixed(0.5, (0.1, 1), (4, 4.9)), rating, 2.5, 0, 5, 0.08, 0.1
    ),
}


def interval_errors(name: str, n: int) -> str:
    """How often 95% intervals contain the mean, lie entirely above it, and entirely below it."""
    rng, kind, above, below = np.random.default_rng([1, n]), KINDS[name], 0, 0
    for _ in range(RUNS):
        scores = kind.answers(rng, kind.prompts(rng, n)).tolist()
        interval = bounded_mean(scores, kind.lowest, kind.highest)
        if interval.lower > kind.mean:
            above += 1
        elif interval.upper < kind.mean:
            below += 1
    return _shares(RUNS - above - below, above, below)


def margin_rates(name: str, n: int) -> str:
    """How often a candidate passes that lost exactly the margin, and one that lost nothing."""
    rng, kind, passed = np.random.default_rng([2, n]), KINDS[name], [0, 0]
    for _ in range(RUNS):
        prompts = kind.prompts(rng, n)
        before, same = kind.answers(rng, prompts), kind.answers(rng, prompts)
        worse = np.where(rng.random(n) < kind.lost, kind.bad, same)
        for place, after in enumerate((worse, same)):
            bounds = mean_bounds(
                before.tolist(), after.tolist(), kind.highest - kind.lowest, 0.95
            )
            if bounds.lower >= -kind.margin:
                passed[place] += 1
    return _shares(*passed)


def _shares(*counts: int) -> str:
    return " / ".join(f"{100 * count / RUNS:.1f}" for count in counts)


def mean_of_categories(limit: int) -> tuple[float, float]:
    """Coverage and mean width for ten categories, with ``limit`` prompts evaluated."""
    rng, metric = np.random.default_rng([3, limit]), METRICS["mean_category_score"]
    bad = np.linspace(0.05, 0.5, 10)
    truth = float(np.mean(bad * 1.05 + (1 - bad) * 4.875))
    prompts = [Prompt.single(f"p{n}", "?", category=f"c{n % 10}") for n in range(limit)]
    intervals: list[Estimate] = []
    for _ in range(RUNS // 2):
        scores = [
            float(mixed(bad[n % 10], (0.1, 2), (4.8, 4.95))(rng, 1)[0])
            for n in range(limit)
        ]
        intervals.append(metric.figure(scores, prompts))
    hits = sum(interval.lower <= truth <= interval.upper for interval in intervals)
    widths = [interval.upper - interval.lower for interval in intervals]
    return hits / len(intervals), sum(widths) / len(intervals)


def table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> None:
    """Print a Markdown table, row by row."""
    for row in (head, ["---"] * len(head)):
        print("|", " | ".join(row), "|")
    for row in rows:
        print("|", " | ".join(row), "|", flush=True)
    print()


def main() -> None:
    """Print the tables, computed in two processes."""
    sizes = [f"n = {n}" for n in SIZES]
    pairs = list(product(KINDS, SIZES))
    with ProcessPoolExecutor(2) as pool:
        intervals = pool.map(interval_errors, *zip(*pairs, strict=True))
        margins = pool.map(margin_rates, *zip(*pairs, strict=True))
        categories = pool.map(mean_of_categories, LIMITS)
        print(
            "95% intervals, in %: hold the mean / lie wholly above it / wholly below it\n"
        )
        table(
            ["scores", *sizes],
            ([name, *islice(intervals, len(SIZES))] for name in KINDS),
        )
        print(
            "Passes at 95%, in %, of a candidate that lost just the margin / that lost nothing\n"
        )
        table(
            ["scores, margin", *sizes],
            (
                [f"{name}, {kind.margin:.3g}", *islice(margins, len(SIZES))]
                for name, kind in KINDS.items()
            ),
        )
        print(
            "`mean_category_score` of ten categories: interval holds the mean / mean width\n"
        )
        cells = [f"{100 * share:.1f}% / {width:.2f}" for share, width in categories]
        table([f"`--limit {limit}`" for limit in LIMITS], iter([cells]))
