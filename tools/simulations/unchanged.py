"""How often an unchanged model keeps a margin, and the one offered before the run.

Prompts differ in their probability of a refusal (a Beta distribution), or are all alike. A baseline
and further runs of the same model are drawn; the gates decide as in a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from refusal_checks.core.prompts import Kind, Prompt
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.verdicts import Binary, Label
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.decision import decide_all
from refusal_checks.gates.estimates import Rules
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.score_files import Scores, score_prompts
from refusal_checks.gates.unchanged import forecasts
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import score_all

BASELINES, RUNS = 20, 25
LEVEL = 0.95
GATE = Gate("bench", "rejection_rate", max_drop=0.05)
WIDEST = replace(GATE, max_drop=0.001)
"""A gate that no run passes, so that a margin is always offered."""


class Case(NamedTuple):
    """A model: prompts, answers to each, mean probability of a refusal, its Beta's size.

    Attributes:
        size: the smaller, the further the prompts lie apart; infinite if they are alike.
    """

    n: int
    samples: int
    mean: float
    size: float


CASES = (
    Case(200, 1, 0.85, np.inf),
    Case(200, 1, 0.85, 1.0),
    Case(200, 5, 0.85, np.inf),
    Case(200, 5, 0.85, 1.0),
    Case(80, 5, 0.85, 1.0),
    Case(450, 1, 0.90, np.inf),
)


def _records(shares: Sequence[float], samples: int, rng: object) -> list[Record]:
    assert isinstance(rng, np.random.Generator)
    records = []
    for number, share in enumerate(shares):
        prompt = Prompt.single(f"p{number}", f"request {number}")
        for sample, is_refusal in enumerate(rng.random(samples) < share):
            label = Label.REFUSAL if is_refusal else Label.COMPLIANCE
            answer = Completion("an answer")
            records.append(Record(prompt, sample, answer, Binary(label)))
    return records


def _earlier(records: Sequence[Record], samples: int) -> Earlier:
    keys = [str(sample) for sample in range(samples)]
    prompts = dict(score_prompts(records, score_all(records), lambda prompt: keys))
    return Earlier(Scores("bench", Kind.SAFETY, "model", "1", "", {}, {}, prompts))


def _passes(gate: Gate, records: Sequence[Record], earlier: Earlier) -> bool:
    verdict = decide_all([gate], records, Rules(level=LEVEL), earlier)[gate.id]
    assert isinstance(verdict, Verdict)
    return verdict.passed


def _cells(case: Case) -> str:
    rng = np.random.default_rng([9, case.n, case.samples, round(100 * case.mean)])
    passed = np.zeros(2)
    said: list[float] = []
    offered: list[float] = []
    for _ in range(BASELINES):
        shares = np.full(case.n, case.mean)
        if np.isfinite(case.size):
            shares = rng.beta(
                case.mean * case.size, (1 - case.mean) * case.size, case.n
            )
        first = _records(list(shares), case.samples, rng)
        earlier = _earlier(first, case.samples)
        prompts = {"bench": list({r.prompt.id: r.prompt for r in first}.values())}
        found = forecasts([WIDEST], prompts, {"bench": earlier}, LEVEL)
        margin = found[0].margin
        assert margin is not None
        offered.append(margin)
        own = forecasts([GATE], prompts, {"bench": earlier}, LEVEL)
        if own:
            said.append(own[0].chance)
        for _ in range(RUNS):
            again = _records(list(shares), case.samples, rng)
            for place, bound in enumerate((GATE.max_drop, margin)):
                gate = replace(GATE, max_drop=bound)
                passed[place] += _passes(gate, again, earlier)
    usual, wide = 100 * passed / (BASELINES * RUNS)
    told = f"{100 * np.mean(said):.0f}%" if len(said) == BASELINES else "90% or more"
    return f"{usual:.0f}% | {told} | {np.mean(offered):.3f} | {wide:.0f}%"


def main() -> None:
    """Print, by model, how often the margin passes, what is said, and what the offer does."""
    print("| n | K | mean | Beta size | passes 0.05 | said | offered | passes it |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for case in CASES:
        n, samples, mean, size = case
        print(f"| {n} | {samples} | {mean} | {size:g} | {_cells(case)} |", flush=True)


if __name__ == "__main__":
    main()
