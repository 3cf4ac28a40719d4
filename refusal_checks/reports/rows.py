"""The summary table as rows of text: one row per gate, grouped by benchmark."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from refusal_checks.core.layout import told_apart
from refusal_checks.core.text import clean
from refusal_checks.gates.bounds import bounds_in_words, exact
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS, Metric, main_metric
from refusal_checks.metrics.refusal import invalid_rate
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.reports.wording.verdicts import mark
from refusal_checks.results.benchmark_summary import BenchmarkSummary
from refusal_checks.results.summary import RunSummary

CANDIDATE_WIDTH = 20

HEADER = ("", "gate", "figure", "n", "threshold", "change", "invalid")

MEASURED = "-"
"""The mark of a figure without a gate."""


class Row(NamedTuple):
    """A gate, or a benchmark's figure without one.

    Attributes:
        mark: outcome of its test, for example ``pass?``; ERROR without a verdict, or MEASURED.
        gate: its id, as ``-k`` takes it.
        is_main: whether it is the first row of a benchmark, whose gate stands for the benchmark.
        cells: the columns from figure to invalid, see ``HEADER``.
        error: why there is no verdict; the cells are then empty.
    """

    mark: str
    gate: str
    is_main: bool
    cells: tuple[str, ...] = ("",) * 5
    error: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.mark, self.gate, *self.cells)


def rows(run: RunSummary, verbose: bool = False) -> list[Row]:
    """The rows of a run, by benchmark: first what stands for it, then its other gates.

    A benchmark without a bound has a row with its main figure. Passing gates on the share of
    invalid answers, which has a column, are shown only if verbose.
    """
    gates: dict[str, dict[str, Verdict | None]] = {}
    for gate_id, verdict in run.verdicts.items():
        gates.setdefault(verdict.gate.benchmark, {})[gate_id] = verdict
    for gate_id in run.errors:
        gates.setdefault(benchmark_of(gate_id), {})[gate_id] = None
    for name in run.benchmarks:
        gates.setdefault(name, {})
    found: list[Row] = []
    said: set[str] = set()
    unbounded = measured(run)
    for name, own in gates.items():
        decided = [verdict.gate for verdict in own.values() if verdict]
        first: Gate | None = None
        if name in unbounded:
            found.append(_measured(name, unbounded[name], run.benchmarks[name]))
        elif decided:
            first = main_gate(decided)
        others: list[Row] = []
        for gate_id, decision in own.items():
            shown = clean(gate_id)
            if decision is None:
                error = clean(run.errors[gate_id])
                if error in said:  # as of all gates whose judge is not trusted
                    error = "the same reason"
                said.add(error)
                others.append(Row("ERROR", shown, not decided, error=error))
            elif decision.gate is first:
                found.append(Row(mark(decision), shown, True, _cells(decision)))
            elif verbose or not _is_extra(decision):
                others.append(Row(mark(decision), shown, False, _cells(decision)))
        found += others
    return found


def measured(run: RunSummary) -> dict[str, Metric]:
    """The main metrics of benchmarks whose answers no gate looks at, by benchmark."""
    bounded = set(map(benchmark_of, run.errors))
    for verdict in run.verdicts.values():
        if METRICS[verdict.gate.metric].group != "judging":
            bounded.add(verdict.gate.benchmark)
    found = {}
    for name, summary in run.benchmarks.items():
        metric = main_metric(summary.figures)
        if metric and name not in bounded:
            found[name] = metric
    return found


def _measured(name: str, metric: Metric, summary: BenchmarkSummary) -> Row:
    """The row of a benchmark that is measured, but not gated."""
    estimate = summary.figures[metric.name]
    invalid = sum(summary.invalid.values()) / max(1, summary.answers)
    cells = (_figure(metric, estimate), str(estimate.n), "-", "", f"{invalid:.1%}")
    return Row(MEASURED, f"{clean(name, 60)}-{metric.name}", True, cells)


def _is_extra(verdict: Verdict) -> bool:
    """True if the column of invalid answers says everything that the gate's row would."""
    gate = verdict.gate
    return verdict.passed and not gate.waiver and gate.metric == invalid_rate.name


def main_gate(gates: Iterable[Gate]) -> Gate:
    """The gate that stands for a benchmark, preferably one on all its answers."""
    return min(
        gates,
        key=lambda gate: (gate.metric == invalid_rate.name, gate.group is not None),
    )


def benchmark_of(gate_id: str) -> str:
    """The benchmark in a gate's id. Its name may contain hyphens; names of metrics do not."""
    ends = (gate_id.find(f"-{metric}") for metric in METRICS)
    return gate_id[: min((end for end in ends if end > 0), default=len(gate_id))]


def _cells(verdict: Verdict) -> tuple[str, ...]:
    gate, estimate, compared = verdict.gate, verdict.estimate, verdict.comparison
    metric = METRICS[gate.metric]
    change = metric.show_change(compared.change.value) if compared else ""
    margins = [f"{name} {exact(metric, end)}" for name, end in gate.bounds.items()]
    return (
        _figure(metric, estimate),
        str(estimate.n),
        bounds_in_words(gate, "min {}", "max {}", " ") or " ".join(margins),
        change.removesuffix(" points"),
        f"{verdict.invalid.share:.1%}",
    )


def _figure(metric: Metric, estimate: Estimate) -> str:
    span = metric.interval(estimate).replace("%", "")
    return f"{metric.show(estimate.value)} {span}"


def candidate_names(runs: Sequence[RunSummary]) -> list[str]:
    """Short unique names of the candidates; empty for a single run."""
    if len(runs) < 2:
        return [""]
    full = [clean(run.manifest.shown) for run in runs]
    ends = [name.rpartition("#")[2].rstrip("/").rpartition("/")[2] for name in full]
    named = ends if len(set(ends)) == len(ends) else full
    short = told_apart(named, CANDIDATE_WIDTH)
    if len(set(short)) == len(short):
        return short
    numbered = enumerate(told_apart(named, CANDIDATE_WIDTH - 3), 1)
    return [f"{number} {name}" for number, name in numbered]
