"""The summary table as rows of text: one row per gate, grouped by benchmark."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from refusal_checks.core.layout import told_apart
from refusal_checks.core.text import clean
from refusal_checks.gates import sentences
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.gates.wording import bounds_in_words
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.refusal import invalid_rate
from refusal_checks.results.summary import RunSummary

CANDIDATE_WIDTH = 20

HEADER = ("", "gate", "figure", "n", "threshold", "change", "invalid")


class Row(NamedTuple):
    """A gate.

    Attributes:
        mark: outcome of its test, for example ``pass?``; ERROR without a verdict.
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
    """The rows of a run: by benchmark, then gate.

    Passing gates on the share of invalid answers, which has a column, are shown only if verbose.
    """
    rows = []
    for ids in _benchmarks(run):
        for gate in ids:
            is_main = gate == ids[0]
            verdict = run.verdicts.get(gate)
            if gate in run.errors:
                error = clean(run.errors[gate])
                rows.append(Row("ERROR", clean(gate), is_main, error=error))
            elif verdict and (is_main or verbose or not _is_extra(verdict)):
                cells = tuple(_cells(verdict))
                rows.append(Row(sentences.mark(verdict), clean(gate), is_main, cells))
    return rows


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


def _benchmarks(run: RunSummary) -> Iterator[list[str]]:
    """Ids of each benchmark's gates, main gate first."""
    gates: dict[str, dict[str, Gate | None]] = {}
    for gate_id, verdict in run.verdicts.items():
        gates.setdefault(verdict.gate.benchmark, {})[gate_id] = verdict.gate
    for gate_id in run.errors:
        gates.setdefault(benchmark_of(gate_id), {}).setdefault(gate_id, None)
    for by_id in gates.values():
        decided = [gate for gate in by_id.values() if gate]
        main = main_gate(decided).id if decided else next(iter(by_id))
        yield [main, *(gate_id for gate_id in by_id if gate_id != main)]


def benchmark_of(gate_id: str) -> str:
    """The benchmark in a gate's id. Its name may contain hyphens; names of metrics do not."""
    ends = (gate_id.find(f"-{metric}") for metric in METRICS)
    return gate_id[: min((end for end in ends if end > 0), default=len(gate_id))]


def _cells(verdict: Verdict) -> Iterator[str]:
    gate, estimate, compared = verdict.gate, verdict.estimate, verdict.comparison
    span = gate.interval(estimate).replace("%", "")
    yield f"{gate.show(estimate.value)} {span}"
    yield str(estimate.n)
    yield bounds_in_words(gate, "min {}", "max {}", " ") or "change"
    change = METRICS[gate.metric].show_change(compared.change.value) if compared else ""
    yield change.removesuffix(" points")
    yield f"{verdict.invalid.share:.1%}"


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
