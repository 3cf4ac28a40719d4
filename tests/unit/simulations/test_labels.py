"""The simulation of label sheets: small versions of its table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulations.labels import MODELS, coverage, recorded, simulated


@pytest.mark.parametrize("model", MODELS)
def test_half_a_sheet_of_real_labels_is_a_random_sample(mirror: Path, model: str) -> None:
    found = coverage(recorded(mirror, model), 0.5, draws=40)
    assert found.held >= 0.88
    assert abs(found.bias) < 0.04
    assert (found.given, found.prompts) == (1.0, 25.0)


@pytest.mark.parametrize("filled", [1.0, 0.6])
def test_canned_refusals_do_not_come_first(filled: float) -> None:
    """Half filled, the rate was off by 32 points when a prompt's rows were mixed with others."""
    found = coverage(simulated(100), filled, draws=40, labels=60)
    assert found.held >= 0.88
    assert abs(found.bias) < 0.04
