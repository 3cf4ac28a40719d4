"""Gates and measured figures as rows, which terminal, Markdown and page lay out as tables."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from refusal_checks.core.text import sanitize
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.requirements import requirement
from refusal_checks.gates.verdict import InvalidAnswers, Verdict
from refusal_checks.metrics import METRICS, main_metric
from refusal_checks.metrics.refusal_rates import invalid_rate
from refusal_checks.results.summary import RunSummary
from refusal_checks.wording.gate_sentences import mark

HEADER = ("", "gate", "figure", "n", "threshold", "change", "invalid")


@dataclass(frozen=True)
class Row:
    """A gate, or a benchmark's figure without one.

    Attributes:
        id: the gate's id, as ``-k`` takes it.
        verdict: None after an error.
        error: why there is no verdict.
        is_main: whether it is the first row of its benchmark, which represents it.
    """

    id: str
    benchmark: str
    verdict: Verdict | None = None
    error: str = ""
    is_main: bool = False

    @property
    def mark(self) -> str:
        return mark(self.verdict) if self.verdict else "ERROR"

    @property
    def columns(self) -> tuple[str, ...]:
        """The texts below ``HEADER``."""
        if not self.verdict:
            return (self.mark, self.id, *[""] * 5)
        gate, estimate = self.verdict.gate, self.verdict.estimate
        metric, compared = METRICS[gate.metric], self.verdict.comparison
        span = gate.interval(estimate).replace("%", "")
        change = metric.show_change(compared.change.value) if compared else ""
        return (
            self.mark,
            self.id,
            f"{gate.show(estimate.value)} {span}",
            str(estimate.n),
            requirement(gate) or "-",
            change.removesuffix(" points"),
            f"{self.verdict.invalid.share:.1%}",
        )

    @property
    def is_extra(self) -> bool:
        """True if the column of invalid answers already says what this row would."""
        is_of_invalid = self.verdict and self.verdict.gate.metric == invalid_rate.name
        return bool(is_of_invalid) and self.has_passed and not self.is_main

    @property
    def has_passed(self) -> bool:
        return self.mark in ("pass", "pass?")

    @property
    def is_of_group(self) -> bool:
        return self.verdict is not None and self.verdict.gate.group is not None

    @property
    def is_of_judging(self) -> bool:
        """True for a gate on how answers were judged, which says nothing about the candidate."""
        return self.verdict is not None and _is_of_judging(self.verdict.gate)


def rows(run: RunSummary) -> list[Row]:
    """The rows of a run by benchmark: first the main one, then its other gates.

    A benchmark without a bound has a row with its main figure.
    """
    by_benchmark: dict[str, list[Row]] = {}
    # Errors after verdicts: a benchmark's row should have a figure if any of its gates has one.
    verdicts = run.verdicts | {each.gate.id: each for each in ungated_figures(run)}
    for gate_id, verdict in verdicts.items():
        name = verdict.gate.benchmark
        row = Row(sanitize(gate_id), name, verdict)
        by_benchmark.setdefault(name, []).append(row)
    said: set[str] = set()
    for gate_id, why in run.errors.items():
        error, name = sanitize(why), benchmark_of(gate_id)
        if error in said:  # as of all gates whose judge is not trusted
            error = "the same reason"
        said.add(error)
        row = Row(sanitize(gate_id), name, error=error)
        by_benchmark.setdefault(name, []).append(row)
    found: list[Row] = []
    for own in by_benchmark.values():
        own.sort(key=_rank)
        found += [replace(own[0], is_main=True), *own[1:]]
    return found


def _rank(row: Row) -> tuple[bool, bool, bool]:
    """Sort key: decided rows that cover all answers come first."""
    return row.verdict is None, row.is_of_judging, row.is_of_group


def ungated_figures(run: RunSummary) -> Iterator[Verdict]:
    """The main figures of benchmarks without a gate on their answers, as gates without bounds."""
    # A benchmark that failed to be judged has a row already, with the error.
    bounded = set(map(benchmark_of, run.errors))
    for verdict in run.verdicts.values():
        if not _is_of_judging(verdict.gate):
            bounded.add(verdict.gate.benchmark)
    for name, summary in run.benchmarks.items():
        metric = main_metric(summary.figures)
        if metric and name not in bounded:
            invalid = sum(summary.invalid.values()) / max(1, summary.answers)
            yield Verdict(
                Gate(name, metric.name),
                True,
                summary.figures[metric.name],
                summary.answers,
                invalid=InvalidAnswers(invalid),
                kind=summary.kind,
            )


def _is_of_judging(gate: Gate) -> bool:
    return METRICS[gate.metric].group == "judging"


def benchmark_of(gate_id: str) -> str:
    """The benchmark in a gate's id. Its name may contain hyphens; names of metrics do not."""
    # An error has a gate's id alone: of a run that was read again, no Gate is left.
    ends = (gate_id.find(f"-{metric}") for metric in METRICS)
    return gate_id[: min((end for end in ends if end > 0), default=len(gate_id))]
