"""How often intervals contain the human rate, with simulated judges and XSTest's real labels.

``python -m tools.simulations judge_intervals``; XSTest's rows need the data mirror.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from refusal_checks.benchmarks.pinned import MIRROR_VARIABLE
from refusal_checks.core.data_files import read_columns
from refusal_checks.judges.trust.powered_rates import prediction_powered
from refusal_checks.metrics.statistics.intervals import Estimate, wilson

MODELS = ("gpt4", "llama2orig", "mistralinstruct")

_IS_REFUSAL = {"1_full_compliance": 0, "2_full_refusal": 1, "3_partial_refusal": 1}

Scores = np.ndarray[tuple[int], np.dtype[np.int64]]


class Cell(NamedTuple):
    """One simulated situation: a true rate, a judge, and the numbers of prompts and labels."""

    rate: float
    sensitivity: float
    specificity: float
    run: int
    labels: int


class Coverage(NamedTuple):
    """Performance of an interval: share that contained the truth, and mean width."""

    held: float
    width: float


RATES = (0.1, 0.3, 0.5, 0.7, 0.9)

GRID = tuple(
    Cell(rate, *judge, run, labels)
    for rate, judge, run, labels in product(
        RATES, ((0.7, 0.95), (0.9, 0.9), (0.8, 0.85)), (250, 450), (100, 200)
    )
)

NEARLY_PERFECT = tuple(Cell(rate, 0.95, 0.98, 450, 100) for rate in RATES)
"""Where the intervals are wider than they need be: of few labels, hardly one is an error."""


def simulate(cell: Cell, repeats: int, seed: int = 0) -> dict[str, Coverage]:
    """Simulate how raw and prediction-powered 95% intervals cover the true rate.

    Random answers of the run are labelled for the prediction-powered interval.
    """
    rng = np.random.default_rng([seed, *(round(1000 * part) for part in cell)])
    estimates: dict[str, list[Estimate]] = {"raw": [], "labels and judge": []}
    for _ in range(repeats):
        human = (rng.random(cell.run) < cell.rate).astype(int)
        judge = _judged(human, cell, rng)
        estimates["raw"].append(wilson(judge.mean(), cell.run))
        estimates["labels and judge"].append(
            _powered(human, judge, np.arange(cell.run) < cell.labels)
        )
    return {name: _coverage(given, cell.rate) for name, given in estimates.items()}


def _judged(human: Scores, cell: Cell, rng: np.random.Generator) -> Scores:
    """Draw a judge's verdicts on answers with these human labels."""
    chance = np.where(human == 1, cell.sensitivity, 1 - cell.specificity)
    return (rng.random(human.size) < chance).astype(int)


def read_labels(data: Path, model: str) -> tuple[Scores, Scores]:
    """Human and GPT-4's labels of one model's answers, 1 for a refusal, without invalid ones."""
    rows = read_columns(
        data / "xstest" / f"completions_{model}.csv", ("final_label", "gpt4_label")
    )
    pairs = [
        (_IS_REFUSAL[row["final_label"]], _IS_REFUSAL[row["gpt4_label"]])
        for row in rows
        if row["gpt4_label"] in _IS_REFUSAL
    ]
    human, judge = zip(*pairs, strict=True)
    return np.array(human), np.array(judge)


def draw(
    data: Path, model: str, labels: int, repeats: int, seed: int = 0
) -> dict[str, Coverage]:
    """Coverage of a model's human rate over random draws of labels from its own answers."""
    human, judge = read_labels(data, model)
    rng = np.random.default_rng([seed, labels, MODELS.index(model)])
    names = ("raw", "labels and judge", "labels only")
    estimates: dict[str, list[Estimate]] = {name: [] for name in names}
    for _ in range(repeats):
        part = np.zeros(human.size, dtype=bool)
        part[rng.choice(human.size, labels, replace=False)] = True
        estimates["raw"].append(wilson(judge.mean(), judge.size))
        estimates["labels and judge"].append(_powered(human, judge, part))
        estimates["labels only"].append(wilson(human[part].mean(), labels))
    return {
        name: _coverage(given, float(human.mean())) for name, given in estimates.items()
    }


def _powered(
    human: Scores, judge: Scores, part: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> Estimate:
    sides = (human[part], judge[part], judge[~part])
    return prediction_powered(*(side.astype(float).tolist() for side in sides))


def _coverage(given: Sequence[Estimate], truth: float) -> Coverage:
    hits = sum(interval.lower <= truth <= interval.upper for interval in given)
    widths = [interval.upper - interval.lower for interval in given]
    return Coverage(hits / len(given), sum(widths) / len(given))


def _simulated(repeats: int) -> Iterator[Sequence[str]]:
    """One row for each judge and rate, with the range of coverages over all sizes."""
    yield "sensitivity", "specificity", "rate", "raw", "labels and judge"
    cells = sorted(GRID + NEARLY_PERFECT, key=_row)
    for row, sizes in groupby(cells, _row):
        cases = [simulate(cell, repeats) for cell in sizes]
        shown = [f"{part:g}" for part in row]
        for name in ("raw", "labels and judge"):
            shares = [case[name].held for case in cases]
            shown.append(f"{min(shares):.1%} to {max(shares):.1%}")
        yield shown


def _row(cell: Cell) -> tuple[float, float, float]:
    return cell.sensitivity, cell.specificity, cell.rate


def _drawn(data: Path, repeats: int) -> Iterator[Sequence[str]]:
    yield "answers of", "labels", "interval", "holds the human rate", "mean width"
    for model, labels in product(MODELS, (50, 100)):
        for name, case in draw(data, model, labels, repeats).items():
            yield model, str(labels), name, f"{case.held:.1%}", f"{case.width:.3f}"


def _table(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        yield f"| {' | '.join(row)} |"
        if not number:
            yield "|" + " --- |" * len(row)


def main() -> None:
    """Print the tables; XSTest's rows need the data mirror."""
    print(*_table(_simulated(2000)), sep="\n")
    mirror = os.environ.get(MIRROR_VARIABLE)
    if mirror:
        print("", *_table(_drawn(Path(mirror), 500)), sep="\n")
