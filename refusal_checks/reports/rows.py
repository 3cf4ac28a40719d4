"""The summary table as rows of words: a row a gate, in groups of one benchmark each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from refusal_checks.core.text import clean
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.judging import invalid_rate
from refusal_checks.reports import words
from refusal_checks.results.summary import RunSummary

CANDIDATE_WIDTH = 20

HEADER = ("", "gate", "candidate", "figure", "n", "threshold", "change", "invalid")


@dataclass(frozen=True)
class Row:
    """One gate of one candidate.

    Attributes:
        mark: what became of its test, for example ``pass?``; ERROR where it has no verdict.
        gate: its id; without the benchmark's name where it is not the main one.
        candidate: empty where the run has a single one.
        is_main: whether it is the first row of its benchmark, the gate that stands for it.
        cells: figure with interval, n, threshold, change, share of invalid answers.
        error: why there is no verdict; the cells are empty then.
    """

    mark: str
    gate: str
    candidate: str
    is_main: bool
    cells: tuple[str, ...] = ("", "", "", "", "")
    error: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """All of its words, under ``HEADER``."""
        return (self.mark, self.gate, self.candidate, *self.cells)


def rows(runs: Sequence[RunSummary], verbose: bool = False) -> list[Row]:
    """The rows of all runs: by benchmark, by gate, by candidate.

    Args:
        verbose: also of gates on the share of invalid answers that pass, which have a column.
    """
    names = candidate_names(runs)
    found = []
    for benchmark, ids in _benchmarks(runs).items():
        main = True
        for id in ids:
            shown = id if main else id.removeprefix(f"{benchmark}-")
            for run, name in zip(runs, names, strict=True):
                row = _row(run, id, clean(shown), name, main)
                if row and (verbose or main or not is_extra(run.verdicts.get(id))):
                    found.append(row)
            main = False
    return found


def is_extra(verdict: Verdict | None) -> bool:
    """Whether a gate tells nothing that the column of invalid answers does not tell."""
    return bool(verdict and verdict.passed and verdict.gate.metric == invalid_rate.name)


def left_out(runs: Sequence[RunSummary]) -> int:
    """How many gates have no row unless all are shown."""
    return len(rows(runs, True)) - len(rows(runs))


def main_gate(gates: Iterable[Gate]) -> Gate:
    """The gate that stands for its benchmark: the first on all prompts and on no invalid answers.

    Args:
        gates: those of one benchmark, at least one.
    """
    return min(gates, key=_rank)


def _rank(gate: Gate) -> tuple[bool, bool]:
    return gate.metric == invalid_rate.name, gate.group is not None


def _benchmarks(runs: Sequence[RunSummary]) -> dict[str, list[str]]:
    """Gate ids by benchmark, the main one first, whether they have a verdict or an error."""
    gates: dict[str, dict[str, Gate | None]] = {}
    for run in runs:
        for id, verdict in run.verdicts.items():
            gates.setdefault(verdict.gate.benchmark, {})[id] = verdict.gate
    for run in runs:
        for id in run.errors:
            gates.setdefault(id.partition("-")[0], {}).setdefault(id, None)
    return {name: _main_first(found) for name, found in gates.items()}


def _main_first(gates: Mapping[str, Gate | None]) -> list[str]:
    known = [gate for gate in gates.values() if gate]
    first = main_gate(known).id if known else next(iter(gates))
    return [first, *(id for id in gates if id != first)]


def _row(run: RunSummary, id: str, shown: str, candidate: str, main: bool) -> Row | None:
    if id in run.errors:
        return Row("ERROR", shown, candidate, main, error=clean(run.errors[id]))
    verdict = run.verdicts.get(id)
    if verdict is None:
        return None
    return Row(words.mark(verdict), shown, candidate, main, tuple(_cells(verdict)))


def _cells(verdict: Verdict) -> Iterator[str]:
    gate, estimate, compared = verdict.gate, verdict.estimate, verdict.comparison
    yield f"{words.figure(gate, estimate.value)} {words.interval(gate, estimate).replace('%', '')}"
    yield str(estimate.n)
    bounds = (("min", gate.minimum), ("max", gate.maximum))
    named = [f"{name} {words.figure(gate, at)}" for name, at in bounds if at is not None]
    yield " ".join(named) or "change"
    change = METRICS[gate.metric].show_change(compared.change.value) if compared else ""
    yield change.removesuffix(" points")
    yield f"{verdict.invalid:.1%}"


def candidate_names(runs: Sequence[RunSummary]) -> list[str]:
    """Short names of the runs' candidates, each different; empty where there is one run."""
    if len(runs) < 2:
        return [""]
    full = [clean(run.manifest.candidate) for run in runs]
    ends = [name.rpartition("#")[2].rstrip("/").rpartition("/")[2] for name in full]
    short = [ending(name) for name in (ends if len(set(ends)) == len(ends) else full)]
    if len(set(short)) == len(short):
        return short
    return [f"{number} {ending(name, CANDIDATE_WIDTH - 3)}" for number, name in enumerate(short, 1)]


def ending(name: str, width: int = CANDIDATE_WIDTH) -> str:
    """As much of a name's end as fits: models in one folder differ there."""
    return name if len(name) <= width else "…" + name[1 - width :]
