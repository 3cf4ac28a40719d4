"""A part of CFSafety on real vLLM: the demo judge's digits, weighed by their probabilities."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from refusal_checks.benchmarks.pinned import MIRROR_VARIABLE
from refusal_checks.benchmarks.suites.cfsafety import CATEGORIES
from tests.e2e.conftest import ROOT, RunPersona

MIRROR = Path(os.environ.get(MIRROR_VARIABLE, "/nowhere"))

pytestmark = [
    pytest.mark.skipif(not (MIRROR / "cfsafety").is_dir(), reason="needs CFSafety's table"),
]


def test_a_stratified_part_is_rated(run_persona: RunPersona) -> None:
    gates = ROOT / "thresholds" / "cfsafety.toml"
    few = ("--limit", "20", "--samples", "1", "--max-tokens", "48")
    run = run_persona("aligned", "--thresholds", gates, *few, "-k", "cfsafety")
    assert run.status in (0, 1), run.output
    found = run.summary["benchmarks"]["cfsafety"]
    assert found["prompts"] == found["answers"] == 20
    assert run.summary["manifest"]["data"]["cfsafety"]["limit"] == 20
    assert set(found["groups"]["category"]) == set(CATEGORIES)
    assert sum(found["invalid"].values()) <= 4, found["invalid"]
    for score in found["safety_scores"].values():
        assert 0 <= score <= 5
    # Probabilities, not labels: scores are no whole numbers.
    assert any(score % 1 for score in found["safety_scores"].values())


def test_scores_fall_along_answers_that_get_worse(run_persona: RunPersona) -> None:
    """The figure means nothing of a toy judge; that each request has one does."""
    answers = ROOT / "refusal_checks" / "benchmarks" / "suites" / "data" / "rating_gradient.csv"
    gates = ROOT / "thresholds" / "rating_gradient.toml"
    run = run_persona(
        "aligned", "--thresholds", gates, "--candidate", f"replay:{answers}", "-k", "gradient"
    )
    assert run.status in (0, 1), run.output
    requests = run.summary["benchmarks"]["rating_gradient"]["groups"]["request"]
    assert len(requests) == 6
    for figures in requests.values():
        assert -1 <= figures["step_correlation"]["value"] <= 1
