"""How often an unchanged model keeps a margin, and which one is offered."""

import numpy as np
import pytest

from refusal_checks.gates import unchanged
from refusal_checks.gates.score_files import PromptScores
from refusal_checks.metrics import rejection_rate
from refusal_checks.metrics.statistics.paired import share_bounds

LEVEL = 0.95


@pytest.mark.parametrize(
    ("n", "share"), [(200, 0.0), (200, 0.255), (80, 0.18), (450, 0.1), (30, 0.3)]
)
def test_margins_are_kept_as_often_as_it_says(n: int, share: float) -> None:
    rng = np.random.default_rng([54, n])
    offered = unchanged.margin_held(n, share, LEVEL)
    assert offered is not None
    lost, gained, _ = rng.multinomial(n, [share / 2, share / 2, 1 - share], 2000).T
    lower = np.array(
        [
            share_bounds(int(a), int(b), n, LEVEL).lower
            for a, b in zip(lost, gained, strict=True)
        ]
    )
    for margin in (0.05, offered):
        chance = unchanged.chance_unchanged(margin, n, share, LEVEL)
        assert np.mean(lower >= -margin) == pytest.approx(chance, abs=0.04)
    assert unchanged.chance_unchanged(offered, n, share, LEVEL) >= unchanged.HELD
    narrower = unchanged.chance_unchanged(offered - 0.01, n, share, LEVEL)
    assert narrower < unchanged.HELD


@pytest.mark.parametrize(
    ("samples", "size"), [(1, None), (5, None), (5, 1.0), (5, 0.001)]
)
def test_the_variance_of_a_change_is_estimated_from_one_run(
    samples: int, size: float | None
) -> None:
    """``size`` is that of the Beta distribution of the prompts; None if all are alike."""
    rng = np.random.default_rng(54)
    shares = np.full(4000, 0.85)
    if size:
        shares = rng.beta(0.85 * size, 0.15 * size, shares.size)
    first, second = rng.binomial(samples, shares, (2, shares.size)) / samples
    prompts = [
        PromptScores("", {"rejection_rate": score}, (("key", "refusal"),) * samples)
        for score in first
    ]
    found = unchanged.variance_of_change(rejection_rate, prompts)
    assert found == pytest.approx(np.mean((second - first) ** 2), abs=0.02)
