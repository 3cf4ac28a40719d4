"""How often the interval contains people's rate if a drawn sheet is filled wholly or in part.

A sheet is drawn from a run's answers as ``sample-for-labels`` does, its first rows are labelled as
people did (XSTest's labels) or as simulated people do, and the labels are matched as in a gate run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from refusal_checks.benchmarks.pinned import MIRROR_VARIABLE
from refusal_checks.core.data_files import read_columns
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.verdicts import Binary, Label
from refusal_checks.gates.paired_scores import PairedScores
from refusal_checks.judges.rules import LABELS
from refusal_checks.judges.trust import draws as drawing
from refusal_checks.judges.trust.draws import Draw, LabelRow, answer_key
from refusal_checks.judges.trust.labels import HumanLabels, SheetRow
from refusal_checks.metrics import METRICS

MODELS = ("gpt4", "llama2orig", "mistralinstruct")
FILLED = (1.0, 0.8, 0.5)
DRAWS = 400
LABELS_DRAWN = 50

RATE = METRICS["rejection_rate"]


@dataclass(frozen=True)
class Run:
    """A run's answers, as the judge and as people see them.

    Attributes:
        people: their labels by ``answer_key``.
    """

    records: Sequence[Record]
    people: dict[str, Binary]

    @cached_property
    def answers(self) -> list[LabelRow]:
        """The answers that can be drawn."""
        return drawing.answers(Draw("r", "m", "b", 0), self.records)

    @cached_property
    def truth(self) -> float:
        """The rate if people had judged every answer."""
        human = [
            replace(record, judgement=self.people[answer_key("b", record)])
            for record in self.records
        ]
        return RATE.estimate(human).value


class Coverage(NamedTuple):
    """Performance of intervals over many draws.

    Attributes:
        held: share of the given intervals that contain the truth.
        bias: mean of the estimates minus the truth.
        width: mean width.
        given: share of draws with enough labels for an interval.
        prompts: mean number of labelled prompts.
    """

    held: float
    bias: float
    width: float
    given: float
    prompts: float


def recorded(data: Path, model: str) -> Run:
    """One model's answers to XSTest, judged by GPT-4, without outputs that are not labels."""
    rows = read_columns(
        data / "xstest" / f"completions_{model}.csv",
        ("prompt", "completion", "final_label", "gpt4_label"),
    )
    records, people = [], {}
    for number, row in enumerate(rows):
        judged = LABELS.get(row["gpt4_label"].lower())
        if judged is None:
            continue
        prompt = Prompt.single(f"{number}", row["prompt"])
        record = Record(prompt, 0, Completion(row["completion"]), judged)
        records.append(record)
        people[answer_key("b", record)] = LABELS[row["final_label"].lower()]
    return Run(records, people)


def simulated(prompts: int = 250, seed: int = 0) -> Run:
    """Simulate five answers a prompt; refusals are identical, and compliances all differ.

    55% of the prompts are always refused, 35% never, and 10% with an even chance; the judge is
    right on nine answers of ten.
    """
    rng = np.random.default_rng(seed)
    chances = rng.choice([1.0, 0.0, 0.5], prompts, p=[0.55, 0.35, 0.1])
    records, people = [], {}
    for number, chance in enumerate(chances):
        prompt = Prompt.single(f"{number}", f"request {number}")
        by_text: dict[str, Label] = {}
        for sample in range(5):
            human = Label.REFUSAL if rng.random() < chance else Label.COMPLIANCE
            text = "I cannot help." if human is Label.REFUSAL else f"Sure: {sample}"
            verdict = by_text.setdefault(
                text, human if rng.random() < 0.9 else _other(human)
            )
            record = Record(prompt, sample, Completion(text), Binary(verdict))
            records.append(record)
            people[answer_key("b", record)] = Binary(human)
    return Run(records, people)


def _other(label: Label) -> Label:
    return Label.COMPLIANCE if label is Label.REFUSAL else Label.REFUSAL


def coverage(
    run: Run, filled: float, draws: int = DRAWS, labels: int = LABELS_DRAWN
) -> Coverage:
    """How often the interval contains people's rate for the run's answers.

    Args:
        filled: share of the sheet's rows that are labelled, from the top.
        labels: number of rows in a sheet.
    """
    intervals, counts = [], []
    for seed in range(draws):
        labelled = (
            _sheet(run, seed, filled, labels)
            .find("b", run.records, "r")
            .of(run.records)
        )
        if not labelled.why_unused:
            scores = PairedScores.of(
                RATE, run.records, labelled.human, labelled.skipped
            )
            assert not scores.skipped, (
                "a sheet that is filled from the top skips nothing"
            )
            intervals.append(scores.estimate(0.95))
            counts.append(len(labelled.human))
    hits = [interval.lower <= run.truth <= interval.upper for interval in intervals]
    return Coverage(
        held=_mean(hits),
        bias=_mean([interval.value for interval in intervals]) - run.truth,
        width=_mean([interval.upper - interval.lower for interval in intervals]),
        given=len(intervals) / draws,
        prompts=_mean(counts),
    )


def _sheet(run: Run, seed: int, filled: float, size: int) -> HumanLabels:
    """Draw a sheet and label its first rows."""
    draw = Draw("r", "m", "b", seed)
    drawn = drawing.sample([replace(row, draw=draw) for row in run.answers], size)
    rows = [
        SheetRow(draw, row.key, ("", ""), run.people[row.key], f"row {number}")
        for number, row in enumerate(drawn, 1)
    ]
    return HumanLabels((Path("labels.csv"),), tuple(rows[: round(filled * len(rows))]))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _rows(data: Path | None) -> Iterator[Sequence[str]]:
    yield (
        "answers of",
        "filled",
        "labelled prompts",
        "holds the rate",
        "bias",
        "width",
        "given",
    )
    runs = {}
    if data:
        for model in MODELS:
            runs[f"{model}, K = 1"] = recorded(data, model), 50
    for rows in (50, 100):
        runs[f"simulated, K = 5, {rows} rows"] = simulated(), rows
    for name, (run, rows) in runs.items():
        for filled in FILLED:
            c = coverage(run, filled, labels=rows)
            shares = (
                f"{c.held:.1%}",
                f"{c.bias:+.3f}",
                f"{c.width:.3f}",
                f"{c.given:.0%}",
            )
            yield name, f"{filled:.0%}", f"{c.prompts:.1f}", *shares


def main() -> None:
    """Print the table; XSTest's rows need the data mirror."""
    mirror = os.environ.get(MIRROR_VARIABLE)
    print(f"\nLabels drawn by sample-for-labels, {DRAWS} draws a row, nominal 95%\n")
    for number, row in enumerate(_rows(Path(mirror) if mirror else None)):
        print(f"| {' | '.join(row)} |", flush=True)
        if not number:
            print("|" + " --- |" * len(row))
