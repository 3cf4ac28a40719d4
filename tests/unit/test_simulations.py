"""The simulations run, and their rates are those that the documentation promises."""

from __future__ import annotations

import pytest

from tests.simulations import means
from tests.simulations.__main__ import run


def test_an_unknown_part_is_named_with_the_known_ones() -> None:
    with pytest.raises(SystemExit, match=r"no part nonsense; name some of .*means"):
        run(["nonsense"])


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
