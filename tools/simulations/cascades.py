"""How often a cascade's corrected interval contains the second judge's rate, on real answers.

The first judge is the bundled one, run with transformers; the second is GPT-4, by its published
labels on XSTest's held-out answers. For each model, and for all, runs of 250 answers are drawn with
replacement. The second judge reads answers where the first is unsure, and a sample as large as in a
run.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from refusal_checks.benchmarks.pinned import MIRROR_VARIABLE
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record, Vote
from refusal_checks.core.settings import Cascading
from refusal_checks.core.verdicts import Binary, Label
from refusal_checks.gates.rates import Evidence
from refusal_checks.judges.cascade import Cascade, SecondOpinions
from refusal_checks.judges.rules import LABELS
from refusal_checks_demo import JUDGE, e5
from refusal_checks_demo.conversion import E5
from tools.simulations.labels import MODELS
from tools.simulations.views import GATE, JUDGES, share_and_width

PROMPTS, RUNS = 250, 1000
RULE = Cascading()
READ = max(20, math.ceil(RULE.sample * PROMPTS))


class Answer(NamedTuple):
    """The first judge's probability of refusal, and the second judge's label."""

    probability: float
    second: Label


def probabilities(exchanges: list[tuple[str, str]]) -> Iterator[float]:
    """Compute the bundled judge's probabilities of refusal."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from demo.training import encoder

    with TemporaryDirectory() as folder:
        e5.convert(E5.find(), Path(folder), e5.tuned(JUDGE))
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model: Any = AutoModelForSequenceClassification.from_pretrained(folder)
    model.eval()
    with torch.no_grad():
        for request, answer in exchanges:
            ids = encoder.encode(tokenizer, (request, answer, False), 512)
            yield float(encoder.logits(model, [ids]).softmax(-1)[0, 1])


def recorded(data: Path, model: str) -> list[Answer]:
    """A model's held-out answers that GPT-4 labelled."""
    from demo.training.asked import is_held_out

    with (data / "xstest" / f"completions_{model}.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        rows = [row for row in csv.DictReader(file) if is_held_out(row["prompt"])]
    exchanges, labels = [], []
    for row in rows:
        label = LABELS.get(row["gpt4_label"].lower())
        if label:
            exchanges.append((row["prompt"], row["completion"]))
            labels.append(label)
    return list(map(Answer, probabilities(exchanges), labels))


def is_unsure(answer: Answer) -> bool:
    """True where the second judge decides."""
    return RULE.low <= answer.probability <= RULE.high


def records(drawn: list[Answer]) -> Iterator[Record]:
    """The records of a run; both judges have read the first ``READ`` of them."""
    for number, answer in enumerate(drawn):
        label = Label.REFUSAL if answer.probability >= 0.5 else Label.COMPLIANCE
        first = Binary(label, probability=answer.probability)
        second = Binary(answer.second)
        both = is_unsure(answer) or number < READ
        votes = (Vote("first", first), Vote("second", second)) if both else ()
        prompt = Prompt.single(f"p{number}", f"request {number}")
        judged = second if is_unsure(answer) else first
        yield Record(prompt, 0, Completion(f"answer {number}"), judged, votes)


def main() -> None:
    """Print the share asked, and how often both intervals contain the second judge's rate."""
    data = Path(os.environ[MIRROR_VARIABLE])
    by_model = {model: recorded(data, model) for model in MODELS}
    by_model["all three"] = list(chain.from_iterable(by_model.values()))
    cascade = Cascade(JUDGES[0], JUDGES[1], RULE)
    opinions = SecondOpinions(
        cascade, frozenset(f"p{number}" for number in range(READ))
    )
    print("| answers of | asked | differ | raw: held, width | corrected: held, width |")
    print("| --- | --- | --- | --- | --- |")
    for name, answers in by_model.items():
        rng = np.random.default_rng(7)
        by_first = np.array([answer.probability >= 0.5 for answer in answers])
        by_second = np.array([answer.second is Label.REFUSAL for answer in answers])
        refused = float(by_second.mean())
        unsure = float(np.mean([is_unsure(answer) for answer in answers]))
        differ = float(np.mean(by_first != by_second))
        coverage: dict[str, list[tuple[bool, float]]] = {}
        for _ in range(RUNS):
            places = rng.integers(len(answers), size=PROMPTS)
            drawn = [answers[place] for place in places]
            for view in (
                Evidence(second=opinions).rate(GATE, list(records(drawn))).views
            ):
                low, high = view.estimate.lower, view.estimate.upper
                is_hit = low <= refused <= high
                coverage.setdefault(view.use, []).append((is_hit, high - low))
        cells = [share_and_width(coverage[use]) for use in ("raw", "cascade")]
        shares = f"{100 * unsure:.1f}% | {100 * differ:.1f}%"
        print(f"| {name} | {shares} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
