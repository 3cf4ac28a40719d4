"""Small versions of the simulations; the nightly job runs more of them."""

from itertools import product

import pytest

from tools.simulations import labels, lenient_judges, means
from tools.simulations.__main__ import run


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


@pytest.mark.parametrize("specificity", labels.SPECIFICITIES)
def test_a_rate_times_what_people_confirm_has_an_honest_interval(
    specificity: float,
) -> None:
    for rate, n in product(labels.RATES, labels.SIZES):
        held, above, _ = labels.coverage(rate, specificity, n, runs=400)
        # 95% and 2.5%; three standard errors of 400 runs, and an interval of 20 labels.
        assert held >= 0.90
        assert above <= 0.05


@pytest.mark.nightly
def test_20_labels_stop_half_of_what_a_lenient_judge_lets_pass() -> None:
    bad = lenient_judges.shares(0.76, 0.85, runs=40)
    assert bad["point, 20 labels"] <= 0.7 * bad["point, no labels"]
    good = lenient_judges.shares(0.88, 1.0, runs=10)
    assert good["point, 20 labels"] == good["point, no labels"] == 1.0
