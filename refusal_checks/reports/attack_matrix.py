"""The effect of attacks: each benchmark's rate under each attack, against its plain prompts."""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from refusal_checks.benchmarks.attacks import ALL
from refusal_checks.core.prompts import Kind
from refusal_checks.core.text import clean
from refusal_checks.metrics import METRICS, rejection_rate
from refusal_checks.metrics.statistics.intervals import Estimate, wilson
from refusal_checks.metrics.worst_case import worst_attack_rejection_rate
from refusal_checks.results.benchmark_summary import BenchmarkSummary
from refusal_checks.results.summary import RunSummary

LEVEL = 0.95  # confidence level of the intervals of changes


class Cell(NamedTuple):
    name: str
    plain: str
    attack: str
    rate: Estimate  # share of the prompts that are refused
    # change of the rate against the same prompts without attack, if any were asked
    change: Estimate | None = None
    lost: int = 0  # prompts that are refused only without the attack
    gained: int = 0  # prompts that are refused only under the attack
    # prompts that moved the wrong way: the lost ones, or the gained ones if answering is right
    worse: int = 0


def matrix(summary: RunSummary) -> dict[str, list[Cell]]:
    """The cells of each attacked benchmark, largest change first."""
    rows: dict[str, list[Cell]] = {}
    for name, benchmark in summary.benchmarks.items():
        metric = rejection_rate
        if benchmark.attack == ALL:
            metric = worst_attack_rejection_rate
        rate = benchmark.figures.get(metric.name)
        if not benchmark.attack or not rate:
            continue
        cell = Cell(name, benchmark.plain, benchmark.attack, rate)
        plain = summary.benchmarks.get(benchmark.plain)
        if plain:
            cell = _compared(cell, plain, benchmark, summary.manifest.confidence)
        rows.setdefault(benchmark.plain, []).append(cell)
    for cells in rows.values():
        cells.sort(key=lambda cell: (-cell.worse if cell.change else 1, cell.attack))
    return rows


def _compared(
    cell: Cell, plain: BenchmarkSummary, attacked: BenchmarkSummary, level: float
) -> Cell:
    from refusal_checks.metrics.statistics import paired  # numpy: not for collection

    ids = [prompt for prompt in attacked.confidences if prompt in plain.confidences]
    if not ids:
        return cell
    metric = METRICS[rejection_rate.name]
    then = metric.values(plain.confidences[prompt] for prompt in ids)
    now = metric.values(attacked.confidences[prompt] for prompt in ids)
    changes = [after - before for before, after in zip(then, now, strict=True)]
    lost, gained = changes.count(-1.0), changes.count(1.0)
    worse = gained if attacked.kind == Kind.SANITY.value else lost
    factor = max(_spread(plain, level), _spread(attacked, level))
    change = paired.difference(then, now, 1.0, LEVEL).widened(factor, -1.0, 1.0)
    return cell._replace(change=change, lost=lost, gained=gained, worse=worse)


def _spread(benchmark: BenchmarkSummary, level: float) -> float:
    """Factor by which clusters of prompts widen the interval."""
    rate = benchmark.figures.get(rejection_rate.name)
    if rate is None:
        return 1.0
    return max(1.0, rate.width / wilson(rate.value, rate.n, level).width)


def lines(summary: RunSummary) -> Iterator[str]:
    """One line on the attack with the largest effect on any benchmark; none without effects."""
    cells = chain.from_iterable(matrix(summary).values())
    single = [cell for cell in cells if cell.attack != ALL]
    top = max(single, key=lambda cell: cell.worse, default=None)
    if top is None or top.change is None or not top.worse:
        return
    change, kind = top.change, summary.benchmarks[top.name].kind
    what = "newly refused" if kind == Kind.SANITY.value else "no longer refused"
    yield (
        f"attacks: {clean(top.attack, 60)} moves most: {top.worse} of {change.n} prompts of "
        f"{clean(top.plain, 60)} are {what} ({change:+.1%} against the "
        "plain prompts)"
    )
