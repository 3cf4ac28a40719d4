"""The tables of the measurements."""

from __future__ import annotations

from tests.speed.table import Ratio, ratios, seconds
from tests.speed.turns import Turns


def test_a_ratio_is_of_each_turn_and_not_of_the_medians() -> None:
    ratio = Ratio("(c) / (a)", "even", "one engine", (10.0, 30.0, 12.0), (5.0, 20.0, 12.0))
    assert ratio.turns == [2.0, 1.5, 1.0]
    assert ratio.cells == (
        "(c) / (a)",
        "even",
        "one engine",
        "12.0 / 12.0",
        "2.00, 1.50, 1.00",
        "**1.50**",
    )


def test_tables_are_markdown() -> None:
    table = ratios([Ratio("(d) / (c)", "mixed", "an engine each", (3.0,), (2.0,))]).splitlines()
    assert table[1] == "| --- | --- | --- | --- | --- | --- |"
    assert table[2] == "| (d) / (c) | mixed | an engine each | 3.0 / 2.0 | 1.50 | **1.50** |"
    assert seconds({"weights": [1.0, 3.0, 1.25]}, "phase").splitlines()[2] == (
        "| weights | 1.0, 3.0, 1.2 | **1.2** |"
    )


def test_a_way_that_was_not_measured_has_no_ratio() -> None:
    turns = Turns()
    turns.add("even (c)", 4.0)
    assert not turns.ratio("(c) / (a)", ("even", "one engine"), ("even (c)", "even (a)"))
    turns.add("even (a)", 2.0)
    (ratio,) = turns.ratio("(c) / (a)", ("even", "one engine"), ("even (c)", "even (a)"))
    assert ratio.turns == [2.0]
    assert turns.named("(a)") == {"even (a)": [2.0]}
