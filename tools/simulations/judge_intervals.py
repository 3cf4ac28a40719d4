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
from refusal_checks.core.data_files import read_csv
from refusal_checks.core.errors import CalibrationError
from refusal_checks.judges.trust.correction import JudgeErrors, rogan_gladen
from refusal_checks.judges.trust.powered_rates import prediction_powered
from refusal_checks.metrics.statistics.intervals import Estimate, wilson

MODELS = ("gpt4", "llama2orig", "mistralinstruct")

_IS_REFUSAL = {"1_full_compliance": 0, "2_full_refusal": 1, "3_partial_refusal": 1}

Scores = np.ndarray[tuple[int], np.dtype[np.int64]]


class Cell(NamedTuple):
    """One simulated situation: a true rate, a judge, and the sizes of run and calibration."""

    rate: float
    sensitivity: float
    specificity: float
    run: int
    labels: int


class Coverage(NamedTuple):
    """Performance of an interval: share that contained the truth, mean width, share not given."""

    held: float
    width: float
    refused: float = 0.0


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
    """Simulate how raw, corrected and prediction-powered 95% intervals cover the true rate.

    The calibration uses its own answers, half of them refusals; equally many random answers of the
    run are labelled for the prediction-powered interval.
    """
    rng = np.random.default_rng([seed, *(round(1000 * part) for part in cell)])
    estimates: dict[str, list[Estimate | None]] = {
        "raw": [],
        "corrected": [],
        "labels and judge": [],
    }
    for _ in range(repeats):
        human = (rng.random(cell.run) < cell.rate).astype(int)
        judge = _judged(human, cell, rng)
        half = cell.labels // 2
        errors = JudgeErrors(
            half,
            rng.binomial(half, cell.sensitivity),
            half,
            rng.binomial(half, cell.specificity),
        )
        estimates["raw"].append(wilson(judge.mean(), cell.run))
        estimates["corrected"].append(_corrected(judge, errors))
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
    rows = read_csv(
        data / "xstest" / f"completions_{model}.csv", ("final_label", "gpt4_label")
    )
    pairs = [
        (_IS_REFUSAL[row["final_label"]], _IS_REFUSAL[row["gpt4_label"]])
        for row in rows
        if row["gpt4_label"] in _IS_REFUSAL
    ]
    human, judge = zip(*pairs, strict=True)
    return np.array(human), np.array(judge)


def errors_of(human: Scores, judge: Scores) -> JudgeErrors:
    """A judge's errors on labelled answers."""
    recognised = int(judge[human == 1].sum())
    passed = int((1 - judge[human == 0]).sum())
    return JudgeErrors(int(human.sum()), recognised, int((1 - human).sum()), passed)


def draw(
    data: Path, model: str, labels: int, repeats: int, seed: int = 0
) -> dict[str, Coverage]:
    """Coverage of a model's human rate over random draws of labels from its own answers.

    ``transferred`` is calibrated on all labels of the other two models.
    """
    human, judge = read_labels(data, model)
    others = [read_labels(data, other) for other in MODELS if other != model]
    transferred = errors_of(
        *(np.concatenate(side) for side in zip(*others, strict=True))
    )
    rng = np.random.default_rng([seed, labels, MODELS.index(model)])
    names = ("raw", "corrected", "labels and judge", "labels only", "transferred")
    estimates: dict[str, list[Estimate | None]] = {name: [] for name in names}
    for _ in range(repeats):
        part = np.zeros(human.size, dtype=bool)
        part[rng.choice(human.size, labels, replace=False)] = True
        estimates["raw"].append(wilson(judge.mean(), judge.size))
        estimates["corrected"].append(
            _corrected(judge, errors_of(human[part], judge[part]))
        )
        estimates["labels and judge"].append(_powered(human, judge, part))
        estimates["labels only"].append(wilson(human[part].mean(), labels))
        estimates["transferred"].append(_corrected(judge, transferred))
    return {
        name: _coverage(given, float(human.mean())) for name, given in estimates.items()
    }


def _corrected(judge: Scores, errors: JudgeErrors) -> Estimate | None:
    try:
        return rogan_gladen(float(judge.mean()), judge.size, errors)
    except CalibrationError:
        return None


def _powered(
    human: Scores, judge: Scores, part: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> Estimate:
    sides = (human[part], judge[part], judge[~part])
    return prediction_powered(*(side.astype(float).tolist() for side in sides))


def _coverage(given: Sequence[Estimate | None], truth: float) -> Coverage:
    usable = [interval for interval in given if interval is not None]
    if not usable:
        return Coverage(float("nan"), float("nan"), 1.0)
    hits = sum(interval.lower <= truth <= interval.upper for interval in usable)
    widths = [interval.upper - interval.lower for interval in usable]
    usable_share = len(usable) / len(given)
    return Coverage(hits / len(usable), sum(widths) / len(usable), 1 - usable_share)


def _simulated(repeats: int) -> Iterator[Sequence[str]]:
    """One row for each judge and rate, with the range of coverages over all sizes."""
    yield "sensitivity", "specificity", "rate", "raw", "corrected", "labels and judge"
    cells = sorted(GRID + NEARLY_PERFECT, key=_row)
    for row, sizes in groupby(cells, _row):
        cases = [simulate(cell, repeats) for cell in sizes]
        shown = [f"{part:g}" for part in row]
        for name in ("raw", "corrected", "labels and judge"):
            shares = [case[name].held for case in cases]
            shown.append(f"{min(shares):.1%} to {max(shares):.1%}")
        yield shown


def _row(cell: Cell) -> tuple[float, float, float]:
    return cell.sensitivity, cell.specificity, cell.rate


def _drawn(data: Path, repeats: int) -> Iterator[Sequence[str]]:
    yield (
        "answers of",
        "labels",
        "interval",
        "holds the human rate",
        "mean width",
        "not given",
    )
    for model, labels in product(MODELS, (50, 100)):
        for name, case in draw(data, model, labels, repeats).items():
            shares = f"{case.held:.1%}", f"{case.width:.3f}", f"{case.refused:.1%}"
            yield model, str(labels), name, *shares


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
