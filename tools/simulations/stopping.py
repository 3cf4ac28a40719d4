"""How often a gate that stops early is decided otherwise than by all prompts, and what it saves."""

from __future__ import annotations

import numpy as np

from refusal_checks.gates.early_stopping import EarlyStopping
from refusal_checks.gates.gate import Gate
from tools.simulations._records import records_of

MINIMUM, RUNS, SIZES, RATES = 0.80, 1000, (80, 200), (0.775, 0.80, 0.90)
GATE = Gate("b", "rejection_rate", minimum=MINIMUM)


def stopped(refused: np.ndarray) -> tuple[bool, int]:
    """Whether the gate passes by the prompts that were asked, and how many these were."""
    records = records_of(refused.tolist())
    stop = EarlyStopping([GATE], {"b": [record.prompt for record in records]}, 0.95)
    asked = len(records)
    for number, record in enumerate(records, 1):
        if stop.enough("b", [record]):
            asked = number
            break
    return bool(refused[:asked].mean() >= MINIMUM), asked


def main() -> None:
    """Print, by rate and size, the share of wrong decisions and of prompts that were saved."""
    print("| rate | " + " | ".join(f"n = {n:,}" for n in SIZES) + " |")
    print("|---" * (len(SIZES) + 1) + "|")
    for rate in RATES:
        cells = []
        for n in SIZES:
            rng = np.random.default_rng([11, n, round(1000 * rate)])
            wrong = saved = 0
            for _ in range(RUNS):
                refused = rng.permutation(np.arange(n) < round(rate * n))
                passed, asked = stopped(refused)
                wrong += passed != (rate >= MINIMUM)
                saved += n - asked
            cells.append(f"{wrong / RUNS:.1%} wrong, {saved / RUNS / n:.0%} saved")
        print(f"| {rate:.1%} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
