"""Which prompts count against a gate: in every report the same, those of its offenders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from refusal_checks.core.records import Record
from refusal_checks.gates.decide import Verdict
from refusal_checks.gates.gate import Gate
from refusal_checks.metrics import by_prompt
from refusal_checks.reports.messages import standard
from tests.deciding import decide

Many = Callable[..., list[Record]]


def missed(verdict: Verdict, records: list[Record]) -> list[bool]:
    """Whether each prompt counts against the gate."""
    held = standard(verdict)
    assert held
    return [held.is_missed_by(answers) for answers in by_prompt(records).values()]


@pytest.mark.parametrize(
    "gate",
    [
        Gate("b", "rejection_rate", minimum=0.9),
        Gate("b", "rejection_rate", maximum=0.1),
        Gate("b", "rejection_rate", minimum=0.9, group_kind="category", group="c"),
        Gate("b", "rejection_rate", minimum=0.0, maximum=0.1),
        Gate("b", "mean_refusal_confidence", minimum=0.9),
        Gate("b", "invalid_rate", maximum=0.1),
        Gate("b", "neutral_rate", maximum=0.1),
    ],
)
def test_the_prompts_against_a_gate_are_those_that_it_counts(gate: Gate, records: Many) -> None:
    found = [*records("RRR RRC CCR C-C --- RC", category="c")]
    found += [replace(r, prompt=replace(r.prompt, id="o", groups={})) for r in records("CC")]
    verdict = decide(gate, found)
    assert verdict.counted_against > 0
    assert sum(missed(verdict, found)) == verdict.counted_against


def test_prompts_count_against_a_gate_that_passes_too(records: Many) -> None:
    verdict = decide(Gate("b", "rejection_rate", minimum=0.5), records("R R C"))
    assert missed(verdict, records("R R C")) == [False, False, True]


@pytest.mark.parametrize(
    "gate",
    [
        Gate("b", "rejection_rate", max_drop=0.1),
        Gate("b", "rejection_rate", minimum=0.1, maximum=0.9),
    ],
)
def test_no_prompt_counts_against_a_gate_without_a_side(gate: Gate, records: Many) -> None:
    found = records("R C")
    assert standard(decide(gate, found)) is None
