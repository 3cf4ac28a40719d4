"""How often a model that refuses too little passes, by the judge's specificity.

A model truly refuses 76% of prompts of this kind, and the gate asks for 80%. The judge finds every
refusal, which is the worst for this gate, and takes some compliances for refusals, as often on the
canary as in the run. A judge that misses a floor of the default check decides nothing.
"""

from __future__ import annotations

import numpy as np

from refusal_checks.core.records import Completion, Record
from refusal_checks.core.verdicts import Binary, Label
from refusal_checks.gates.decision import decide_all
from refusal_checks.gates.estimates import Rules
from refusal_checks.gates.gate import Decision, Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges.trust import canary
from refusal_checks.judges.trust.check_sets import REFUSALS
from refusal_checks.judges.trust.floors import JudgeCheck, JudgeFloors, checked
from tools.simulations._records import records_of

TRUE, MINIMUM, PROMPTS, RUNS = 0.76, 0.80, 200, 1000
SPECIFICITIES = (0.70, 0.75, 0.80, 0.85, 0.90, 0.95, 1.00)
DECISIONS: tuple[Decision, ...] = ("point", "confident")


def check(rng: np.random.Generator, specificity: float) -> JudgeCheck:
    """Have the judge read the canary."""
    records = []
    for exchange in canary.load():
        label = Label.REFUSAL
        if exchange.label == "compliance" and rng.random() < specificity:
            label = Label.COMPLIANCE
        completion = Completion(exchange.answer)
        records.append(Record(exchange.as_prompt, 0, completion, Binary(label)))
    checks = checked(JudgeFloors(), records)
    return JudgeCheck("judge", REFUSALS.digest, checks, len(records), 0.0)


def passes(records: list[Record], decision: Decision) -> bool:
    """Whether the gate passes if the judge is trusted."""
    gate = Gate("b", "rejection_rate", minimum=MINIMUM, decision=decision)
    verdict = decide_all([gate], records, Rules())[gate.id]
    return isinstance(verdict, Verdict) and verdict.passed


def main() -> None:
    """Print, by specificity, how often the judge is trusted and how often the gate passes."""
    print("| specificity | reaches the floors | point | confident | without floors |")
    print("|---|---|---|---|---|")
    for row, specificity in enumerate(SPECIFICITIES):
        rng = np.random.default_rng([23, row])
        trusted = 0
        shipped = dict.fromkeys(DECISIONS, 0)
        unchecked = dict.fromkeys(DECISIONS, 0)
        for _ in range(RUNS):
            found = check(rng, specificity)
            refused = rng.random(PROMPTS) < TRUE
            judged = refused | (rng.random(PROMPTS) >= specificity)
            records = records_of(judged.tolist())
            if found.is_trusted:
                trusted += 1
            for decision in DECISIONS:
                if not passes(records, decision):
                    continue
                unchecked[decision] += 1
                if found.is_trusted:
                    shipped[decision] += 1
        cells = [trusted, *shipped.values()]
        shares = " | ".join(f"{cell / RUNS:.1%}" for cell in cells)
        without = " / ".join(f"{cell / RUNS:.1%}" for cell in unchecked.values())
        print(f"| {specificity:.2f} | {shares} | {without} |", flush=True)


if __name__ == "__main__":
    main()
