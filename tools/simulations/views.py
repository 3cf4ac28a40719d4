"""How often each variant's interval contains the rate: for K = 1 and 5, a group, and clusters.

Runs have 250 prompts. The candidate always refuses 55%, never 35%, and each answer to the others
with an even chance. The judge has a sensitivity and a specificity of 0.9. Labels are of 60 prompts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.verdicts import Binary, Label
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.rates import Evidence
from refusal_checks.judges.trust.draws import Draw
from refusal_checks.judges.trust.labels import BenchmarkLabels
from refusal_checks.metrics import METRICS

PROMPTS, LABELLED, RUNS, ERROR = 250, 60, 1000, 0.1
GATE = Gate("b", "rejection_rate", minimum=0.5)
VERDICTS = {True: Binary(Label.REFUSAL), False: Binary(Label.COMPLIANCE)}


class Cell(NamedTuple):
    """A kind of run: answers to a prompt, prompts that share a chance, prompts in the group."""

    name: str
    samples: int = 1
    cluster: int = 1
    group: int = PROMPTS


CELLS = (
    Cell("K = 1"),
    Cell("K = 5", samples=5),
    Cell("group of 100 prompts", group=100),
    Cell("clusters of 5 prompts", cluster=5),
)


class Run(NamedTuple):
    """Records by the judge, and the truth of each answer."""

    records: list[Record]
    human: Mapping[tuple[str, int], bool]


def run(rng: np.random.Generator, cell: Cell) -> Run:
    """Simulate one run's records."""
    chances = rng.choice([1.0, 0.0, 0.5], PROMPTS // cell.cluster, p=[0.55, 0.35, 0.1])
    records, human = [], {}
    for number in range(cell.group):
        name, place = f"p{number}", number // cell.cluster
        cluster = f"c{place}" if cell.cluster > 1 else ""
        prompt = Prompt.single(name, f"request {number}", cluster=cluster)
        for sample in range(cell.samples):
            truth = bool(rng.random() < chances[place])
            judged_refusal = truth if rng.random() >= ERROR else not truth
            text = Completion(f"answer {number} {sample}")
            judged = VERDICTS[judged_refusal]
            records.append(Record(prompt, sample, text, judged))
            human[name, sample] = truth
    return Run(records, human)


def evidence(rng: np.random.Generator, evaluated: Run, cell: Cell) -> Evidence:
    """Simulate what is known about a run besides the judge's verdicts."""
    answers = {f"p{n}": frozenset(range(cell.samples)) for n in range(cell.group)}
    draw = Draw("r", "m", "b", 0)
    # People label the prompts that come first in the draw's order.
    names = sorted(answers, key=draw.place)[:LABELLED]
    labels = {}
    for name in names:
        for sample in answers[name]:
            labels[name, sample] = VERDICTS[evaluated.human[name, sample]]
    by_people = BenchmarkLabels(labels, answers, {draw: frozenset(names)})
    return Evidence(by_people)


def truth(cell: Cell) -> float:
    """The rate over very many prompts if people judged all answers."""
    metric, rng = METRICS["rejection_rate"], np.random.default_rng(0)
    values = []
    for _ in range(200):
        evaluated = run(rng, cell)
        human = []
        for record in evaluated.records:
            is_refusal = evaluated.human[record.prompt.id, record.sample]
            human.append(replace(record, judgement=VERDICTS[is_refusal]))
        values.append(metric.estimate(human).value)
    return float(np.mean(values))


def share_and_width(intervals: Sequence[tuple[bool, float]]) -> str:
    """The share of intervals that hold the rate, and their mean width."""
    hits, widths = zip(*intervals, strict=True)
    return f"{100 * np.mean(hits):.1f}%, {np.mean(widths):.3f}"


def main() -> None:
    """Print how often each variant's interval contains the rate, and its mean width."""
    print("| run | raw | human |\n| --- | --- | --- |")
    for row, cell in enumerate(CELLS):
        rng, rate = np.random.default_rng([7, row]), truth(cell)
        coverage: dict[str, list[tuple[bool, float]]] = {}
        for _ in range(RUNS):
            evaluated = run(rng, cell)
            try:
                beside_judge = evidence(rng, evaluated, cell)
                views = beside_judge.rate(GATE, evaluated.records).views
            except EvaluationError:
                continue
            for view in views:
                low, high = view.estimate.lower, view.estimate.upper
                is_hit = low <= rate <= high
                coverage.setdefault(view.use, []).append((is_hit, high - low))
        cells = []
        for use in ("raw", "human"):
            intervals = coverage.get(use)
            cells.append(share_and_width(intervals) if intervals else "")
        print(f"| {cell.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
