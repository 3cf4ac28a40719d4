"""How the judge's check is asked."""

from dataclasses import replace

import pytest

from refusal_checks.benchmarks import discover
from refusal_checks.run.panels import judging_methods


@pytest.mark.parametrize(
    ("usual", "own", "limit"),
    [
        (None, (None, None), None),
        (None, (None, 500), 500),
        (300, (None, 500), 300),
        (800, (900, 500), 500),
    ],
)
def test_a_check_is_cut_as_the_strictest_of_its_benchmarks(
    usual: int | None, own: tuple[int | None, int | None], limit: int | None
) -> None:
    known = discover()
    gated = {
        name: replace(known[name], max_answer_chars=chars)
        for name, chars in zip(("xstest_safe", "xstest_unsafe"), own, strict=True)
    }
    gated["chisafety_qa"] = replace(known["chisafety_qa"], max_answer_chars=100)
    methods = judging_methods(gated, gated, usual)
    assert methods["[judge]"].max_answer_chars == limit
    assert methods["[judge degree]"].max_answer_chars == 100
