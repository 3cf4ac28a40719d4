"""Small versions of the simulations; the nightly job runs more of them."""

from pathlib import Path

import pytest

from tools.simulations import means
from tools.simulations.__main__ import run
from tools.simulations.labels import MODELS, coverage, recorded, simulated

SWEPT = pytest.mark.nightly


def test_an_unknown_part_is_named_with_the_known_ones() -> None:
    with pytest.raises(SystemExit, match=r"no part nonsense; name some of .*means"):
        run(["nonsense"])


@pytest.mark.nightly
@pytest.mark.parametrize("name", means.KINDS)
def test_at_the_margin_few_candidates_pass_and_few_intervals_lie_above_the_mean(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(means, "RUNS", 60)
    passed, _ = map(float, means.margin_rates(name, 50).split(" / "))
    _, above, _ = map(float, means.interval_errors(name, 50).split(" / "))
    # 5% and 2.5%, and three standard errors of 60 runs.
    assert passed <= 13.4
    assert above <= 8.6


@pytest.mark.parametrize(
    "model", [MODELS[0], *(pytest.param(m, marks=SWEPT) for m in MODELS[1:])]
)
def test_half_a_sheet_of_real_labels_is_a_random_sample(
    mirror: Path, model: str
) -> None:
    found = coverage(recorded(mirror, model), 0.5, draws=40)
    assert found.held >= 0.88
    assert abs(found.bias) < 0.04
    assert (found.given, found.prompts) == (1.0, 25.0)


@pytest.mark.parametrize("filled", [pytest.param(1.0, marks=SWEPT), 0.6])
def test_canned_refusals_do_not_come_first(filled: float) -> None:
    """Half filled, the rate was off by 32 points when a prompt's rows were mixed with others."""
    found = coverage(simulated(100), filled, draws=40, labels=60)
    assert found.held >= 0.88
    assert abs(found.bias) < 0.04
