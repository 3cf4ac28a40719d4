"""What gates can show before a run: the power of their bounds."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from syrupy.assertion import SnapshotAssertion

from refusal_checks.core.prompts import Prompt
from refusal_checks.gates import power
from refusal_checks.gates.gate import Gate
from refusal_checks.metrics.statistics.intervals import Estimate, wilson

BOUND = Gate("b", "rejection_rate", min=0.8)
CEILING = Gate("b", "rejection_rate", max=0.1, decision="confident")


def test_what_a_gate_can_show(snapshot: SnapshotAssertion) -> None:
    told = [
        power.describe(BOUND, 200, 0.95),
        power.describe(BOUND, 20_000, 0.95),
        power.describe(CEILING, 20, 0.95),
        power.describe(replace(BOUND, min=0), 20, 0.95),
    ]
    assert "\n".join(told) == snapshot


def test_one_line_tells_of_the_gate_with_the_fewest_prompts() -> None:
    prompts = [
        Prompt.single(f"p{number}", "request", language="zh" if number < 8 else "en")
        for number in range(50)
    ]
    every = replace(BOUND, group_kind="language", group="*")
    said = power.describe_weakest([BOUND, every], {"b": prompts}, 0.95)
    assert said.startswith("b-rejection_rate-zh: with 8 prompts this gate can tell ")
    twins = [replace(prompt, cluster="one") for prompt in prompts[:43]] + prompts[43:]
    assert "with 8 prompts" in power.describe_weakest([BOUND], {"b": twins}, 0.95)
    unknown = [
        replace(BOUND, metric="invalid_rate"),
        replace(BOUND, min=None, max_drop=0.1),
    ]
    assert not power.describe_weakest(unknown, {"b": prompts}, 0.95)


@given(st.integers(1, 300), st.floats(0.01, 0.99), st.sampled_from([None, 0.9, 0.95]))
def test_what_prompts_can_show_is_the_power_of_the_gate(
    n: int, least: float, confidence: float | None
) -> None:
    found = power.reach(least, n, confidence)
    shares = {
        count: Estimate(count / n, count / n, count / n, n) for count in range(n + 1)
    }
    if confidence:
        shares = {count: wilson(count / n, n, confidence) for count in shares}
    passing = [count for count, e in shares.items() if e.lower >= least - 1e-12]
    failing = [count for count, e in shares.items() if e.upper < least - 1e-12]
    for shown, counts in ((found.passes, passing), (found.fails, failing)):
        assert (shown is None) is (not counts)
        if shown is not None and 0 < shown < 1:
            assert np.sum(binom.pmf(counts, n, shown)) == pytest.approx(0.8, abs=1e-6)
