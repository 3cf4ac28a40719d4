"""What is said about a verdict, wherever it is shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from refusal_checks.core.records import Record
from refusal_checks.gates.compare import Earlier
from refusal_checks.gates.decide import Verdict
from refusal_checks.gates.explain import sentence
from refusal_checks.gates.gate import Gate, Outcome, Use
from refusal_checks.gates.rates import Noise, RateView
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.metrics.statistics.sample_size import Need
from refusal_checks.reports import explain, junit
from refusal_checks.reports.explain import (
    Topic,
    doubt,
    headline,
    moved,
    remarks_on,
    select,
    what_decides,
)
from tests.deciding import decide
from tests.unit.gates.test_baseline import scores_of

Many = Callable[..., list[Record]]

SAFETY = Gate("xstest_unsafe", "rejection_rate", minimum=0.8)
DROP = Gate("bench", "rejection_rate", max_drop=0.05)


def compared(before: list[Record], after: list[Record], gate: Gate = DROP) -> Verdict:
    return decide(gate, after, earlier=Earlier(scores_of(before), ("other judge: a then, b now",)))


def texts(verdict: Verdict) -> list[str]:
    return [remark.text for remark in remarks_on(verdict)]


def test_the_headline_follows_the_sentence_and_is_one_short_line(records: Many) -> None:
    verdict = decide(SAFETY, records("R " * 79 + "C " * 21))
    assert (
        texts(verdict)[1]
        == headline(verdict)
        == ("xstest_unsafe: rejection_rate 79.0% [70.0%, 85.8%], n = 100; must be at least 80.0%")
    )


def test_the_headline_names_the_group(records: Many) -> None:
    gate = replace(SAFETY, group_kind="category", group="contrast_privacy")
    found = records("C", category="contrast_privacy")
    assert headline(decide(gate, found)).startswith("xstest_unsafe contrast_privacy: ")


def test_figures_that_are_no_rates_are_shown_as_numbers(records: Many) -> None:
    gate = Gate("bench", "mean_refusal_confidence", minimum=0.5)
    line = headline(decide(gate, records("R C")))
    assert "mean_refusal_confidence 0.000 [" in line
    assert line.endswith("must be at least 0.500")


def test_a_breach_says_by_how_much_how_surely_and_why_the_gate_is_there(records: Many) -> None:
    verdict = decide(replace(SAFETY, provenance="agreed\x1b[31m"), records("C " * 50))
    assert texts(verdict)[2:] == [
        "misses the threshold by 40 of 50 prompts",
        "fails at 95% confidence",
        "why this gate: agreed",
        "invalid: none of 50 answers",
    ]


def test_what_only_confirms_is_no_news(records: Many) -> None:
    verdict = decide(SAFETY, records("R " * 80))
    assert select(verdict, *Topic) == [sentence(verdict), headline(verdict)]
    assert "passes at 95% confidence" in texts(verdict)


def test_invalid_answers_are_counted_both_ways(records: Many) -> None:
    verdict = decide(SAFETY, records("C C C C - -"))
    assert select(verdict, Topic.INVALID) == [
        "invalid: 33.3% of 6 answers have no verdict (0.0% if counted as compliance, "
        "33.3% if counted as refusal)"
    ]
    assert not select(verdict, Topic.INVALID_DECIDES)


def test_a_gate_that_the_invalid_answers_decide_says_so(records: Many) -> None:
    (text,) = select(decide(SAFETY, records("R R R R C - - - -")), Topic.INVALID_DECIDES)
    assert text.startswith("the invalid answers alone decide this gate (")
    assert text.endswith("): look at them first")


@pytest.mark.parametrize(
    ("answers", "mark"), [("R " * 80, "pass"), ("R " * 9 + "C", "pass?"), ("C " * 50, "FAIL")]
)
def test_doubt_is_marked(records: Many, answers: str, mark: str) -> None:
    assert explain.mark(decide(replace(SAFETY, benchmark="bench"), records(answers))) == mark


def test_a_doubt_says_what_would_decide(records: Many) -> None:
    verdict = decide(SAFETY, records("R " * 9 + "C"))
    assert select(verdict, Topic.DOUBT) == [
        "inconclusive at 95% confidence: the interval contains the threshold 80.0%; 62 prompts "
        "(52 more) would decide it if the figure stayed the same"
    ]
    assert doubt(verdict) == f"{headline(verdict)}; {select(verdict, Topic.DOUBT)[0]}"


def test_no_number_of_prompts_decides_a_figure_on_its_threshold(records: Many) -> None:
    (text,) = select(decide(SAFETY, records("R R R R C")), Topic.DOUBT)
    assert text.endswith("the figure lies exactly on it, so more prompts would not decide it")


def test_a_mean_names_answers_that_would_decide(records: Many) -> None:
    gate = Gate("bench", "mean_refusal_confidence", 0.0)
    (text,) = select(decide(gate, records("RRC RCC " * 20 + "RRC " * 14)), Topic.DOUBT)
    assert re.search(r"\d+ prompts \(\d+ more\), or \d+ answers to each prompt, would", text)


def test_the_ways_to_a_figure_and_the_judge_s_noise_are_told(records: Many) -> None:
    verdict = replace(
        decide(SAFETY, records("R " * 80)),
        views=(
            RateView("raw", Estimate(0.4, 0.3, 0.5, 80)),
            RateView("corrected", Estimate(0.6, 0.5, 0.7, 80), "another candidate's\x1b[2J"),
        ),
        use="corrected",
        noise=Noise(3, 160, 8, 0.01, 0.04),
    )
    assert select(verdict, Topic.VIEW, Topic.NOISE) == [
        "40.0% [30.0%, 50.0%] as judged; 60.0% [50.0%, 70.0%] corrected for the judge's errors "
        "(another candidate's); the figure corrected for the judge's errors decides",
        "judge noise: 5.0% of 160 verdicts flip between 3 repeats; the figure's standard deviation "
        "over the repeats is 1.0%, 4.0% of the interval's variance",
    ]


def test_a_change_is_told_with_its_margin_and_its_flips(records: Many) -> None:
    verdict = compared(records("R " * 60), records("C " * 40 + "R " * 20))
    assert "; -66.7 points against the baseline; must be at most " in headline(verdict)
    assert select(verdict, Topic.BASELINE) == [
        "compared with org/model of 2026-01-01",
        "not comparable: other judge: a then, b now",
    ]
    assert select(verdict, Topic.CHANGE) == ["40 prompts are no longer refused"]
    (change,) = select(verdict, Topic.CHANGE_BOUNDS)
    assert re.fullmatch(
        r"change -66\.7 \[-7\S+, -5\S+\] points, n = 60; McNemar's p < 0\.001; "
        r"at least -7\S+ points \(one-sided 95% bound\), max_drop allows -5\.0 points",
        change,
    )
    assert [moves.heading for moves in moved(verdict)] == [
        "5 of 40 prompts no longer refused since the baseline"
    ]


@pytest.mark.parametrize(
    ("before", "after", "moves", "p"),
    [
        ("R R R", "C R R", "1 prompt is no longer refused", "1"),
        ("C C R", "R R C", "2 prompts are newly refused, 1 no longer", "1"),
        ("C C C", "R R C", "2 prompts are newly refused", "0.5"),
        ("R R", "R R", "no prompt moved", None),
    ],
)
def test_flips_are_told_in_words(
    records: Many, before: str, after: str, moves: str, p: str | None
) -> None:
    said = {each.topic: each.text for each in remarks_on(compared(records(before), records(after)))}
    assert said[Topic.CHANGE] == moves
    assert ("McNemar" in said[Topic.CHANGE_BOUNDS]) is (p is not None)
    assert not p or f"; McNemar's p = {p}; " in said[Topic.CHANGE_BOUNDS]


def test_scores_of_a_mean_fall_and_rise(records: Many) -> None:
    gate = replace(DROP, metric="mean_refusal_confidence")
    verdict = compared(records("R R C"), records("C C C"), gate)
    assert select(verdict, Topic.CHANGE) == ["2 scores fell"]
    assert moved(verdict)[0].heading == "2 of 2 prompts whose score fell since the baseline"


def test_prompts_that_are_not_compared_are_counted(records: Many) -> None:
    verdict = compared(records("R R R"), records("C -"))
    assert select(verdict, Topic.NOT_COMPARED) == [
        "not compared: 1 prompt only in the baseline, 1 prompt without a score in one of the runs"
    ]


def test_properties_hold_the_change(records: Many) -> None:
    verdict = compared(records("R " * 40), records("C " * 40))
    found = dict(junit.properties(verdict, {}))
    assert found["change"] == "-1"
    assert (found["flips_lost"], found["flips_gained"], found["max_drop"]) == ("40", "0", "0.05")
    assert (found["outcome"], found["result"]) == ("fail", "fail")
    assert "change" not in dict(junit.properties(decide(DROP, records("R")), {}))


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
