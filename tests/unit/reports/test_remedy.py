"""What would decide a gate, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from refusal_checks.gates.decide import Verdict
from refusal_checks.gates.gate import Gate, Outcome, Use
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.metrics.statistics.sample_size import Need
from refusal_checks.reports.remedy import what_decides

OPEN = Verdict(
    Gate("b", "rejection_rate", minimum=0.8),
    passed=False,
    estimate=Estimate(0.85, 0.7, 1.0, 100),
    bounds=(0.85, 0.85),
    answers=100,
    invalid=0.0,
    outcome=Outcome.INCONCLUSIVE,
)


@pytest.mark.parametrize(
    ("use", "need", "said"),
    [
        ("human", Need(None, labels=90, labelled=50), "human labels of 90 prompts (40 more) would"),
        (
            "human",
            Need(400, labels=90, labelled=50),
            "human labels of 90 prompts (40 more), or 400 prompts (300 more) would decide it",
        ),
        ("human", Need(None, labelled=50), "neither more prompts nor more human labels alone"),
        (
            "corrected",
            Need(None, labels=800, labelled=200),
            "a calibration on 800 labels (600 more) would decide it if the figure stayed the same",
        ),
        ("corrected", Need(None, labelled=9), "nor more labels in the calibration alone"),
        ("raw", Need(120), "120 prompts (20 more) would decide it"),
        ("raw", Need(None), "the figure lies exactly on it"),
        ("raw", None, "more prompts would decide it"),
        ("cascade", None, "a larger --cascade-sample, or more prompts, would decide it"),
        (
            "cascade",
            Need(None, labels=90, labelled=50),
            "the second judge's verdicts on 90 prompts (40 more), see --cascade-sample, would",
        ),
    ],
)
def test_the_scarce_thing_is_named(use: Use, need: Need | None, said: str) -> None:
    assert said in what_decides(replace(OPEN, use=use, need=need))
