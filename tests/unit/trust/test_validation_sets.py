"""The exchanges that judges are checked on, and what each scale's check says of judges."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from refusal_checks.core.judgements import (
    Binary,
    Chosen,
    Graded,
    Invalid,
    Judgement,
    Label,
    Rated,
    Reason,
    Valid,
)
from refusal_checks.core.records import Completion, Record
from refusal_checks.judges import option_reader
from refusal_checks.trust.canary import Exchange
from refusal_checks.trust.minimums import Check, JudgeCheck, JudgeMinimums, check_judge
from refusal_checks.trust.validation_sets import OF_HARM, SETS, ValidationSet

DIGESTS: dict[type[Valid], str] = {
    Chosen: "af0dd4d59f40f047",
    Binary: "991bc39d3a492067",
    Graded: "f31c0ab886d09e99",
    Rated: "ad94186d6865d06a",
}


@pytest.mark.parametrize("verdicts", SETS)
def test_the_sets_are_frozen(verdicts: type[Valid]) -> None:
    """Figures of two releases are comparable: a change of a file is a change of its line here."""
    assert SETS[verdicts].digest[:16] == DIGESTS[verdicts]
    assert OF_HARM.digest[:16] == "0d669c124b53a228"


Says = Callable[[Exchange], Judgement]


def check(
    exchanges: ValidationSet, says: Says, minimums: JudgeMinimums | None = None
) -> JudgeCheck:
    records = []
    for exchange in exchanges.load():
        answer = Completion(exchange.answer)
        records.append(Record(exchange.as_prompt, 0, answer, says(exchange)))
    checks = check_judge(
        minimums or JudgeMinimums(), records, method="w", exchanges=exchanges
    )
    return JudgeCheck("ORG/JUDGE", exchanges.digest, checks, len(records), 0.0)


def degree(place: float) -> Graded:
    return Graded(max(0, min(3, round(place))))  # type: ignore[arg-type]


def rated(step: float) -> Rated:
    """A rating that is 5 for the first of six steps, and 0 for the last."""
    return Rated(1.0, 6.0 + step)


def harm(is_harmless: bool) -> Binary:
    return Binary(Label.REFUSAL if is_harmless else Label.COMPLIANCE)


@pytest.mark.parametrize(
    ("languages", "left", "said", "failed"),
    [
        (("en",), 21, ("en",), set()),
        (("en", "zh"), 42, (), set()),
        (("de",), 0, ("de",), {"specificity", "sensitivity", "injection", "invalid_rate"}),
    ],
)  # fmt: skip
def test_answers_in_languages_that_a_judge_does_not_declare_are_not_in_its_check(
    languages: tuple[str, ...], left: int, said: tuple[str, ...], failed: set[str]
) -> None:
    asked = OF_HARM.within(languages)
    assert (len(asked.plan()), asked.languages) == (left, said)
    found = check(asked, lambda each: harm(each.is_refusal))
    assert {each.figure for each in found.checks if not each.passed} == failed


_DRAWN = random.Random(7)
DEGREES, RATINGS, CHOICES = SETS[Graded], SETS[Rated], SETS[Chosen]


def chosen(letter: str) -> Chosen:
    return Chosen(letter if letter != "refusal" else None, None, read_by="judge")


def test_choices_are_what_rules_leave_to_a_model_and_of_every_letter() -> None:
    exchanges = CHOICES.load()
    assert len(exchanges) == 20
    assert Counter(each.language for each in exchanges) == {"en": 11, "zh": 9}
    for each in exchanges:
        assert option_reader.read_choice(each.answer, each.options) is None, each.id
        if each.label != "refusal":
            assert option_reader.names_option(each.answer, each.label, each.options), (
                each.id
            )
    assert Counter(each.label for each in exchanges).most_common(1)[0][1] <= 6


JUDGES: dict[str, tuple[ValidationSet, Says, set[str]]] = {
    "degrees, right": (DEGREES, lambda e: degree(e.place), set()),
    "degrees, all 3": (
        DEGREES,
        lambda e: degree(3),
        {"specificity", "injection", "rank_agreement"},
    ),
    "degrees, at random": (
        DEGREES,
        lambda e: degree(_DRAWN.randrange(4)),
        {"specificity", "sensitivity", "injection", "rank_agreement"},
    ),
    # In order, and each a degree too high: what is harmless counts as refused.
    "degrees, one higher": (DEGREES, lambda e: degree(e.place + 1), {"specificity"}),
    "degrees, steered": (
        DEGREES,
        lambda e: degree(3 if e.type else e.place),
        {"injection"},
    ),
    "ratings, right": (RATINGS, lambda e: rated(e.place), set()),
    "ratings, all 5": (RATINGS, lambda e: rated(-1), {"rank_agreement"}),
    "ratings, at random": (
        RATINGS,
        lambda e: rated(-_DRAWN.uniform(1, 6)),
        {"rank_agreement"},
    ),
    # In order, but hardly apart.
    "ratings, all near 5": (RATINGS, lambda e: rated(e.place / 20), {"rank_agreement"}),
    "ratings, none": (
        RATINGS,
        lambda e: Invalid(Reason.OUTSIDE_LABELS),
        {"rank_agreement", "invalid_rate"},
    ),
    "choices, right": (CHOICES, lambda e: chosen(e.label), set()),
    "choices, always B": (CHOICES, lambda e: chosen("B"), {"specificity"}),
    "harm, right": (OF_HARM, lambda e: harm(e.is_refusal), set()),
    "harm, all harmless": (OF_HARM, lambda e: harm(True), {"specificity", "injection"}),
    "harm, all harmful": (OF_HARM, lambda e: harm(False), {"sensitivity"}),
}


@pytest.mark.parametrize("judge", JUDGES)
def test_a_judge_is_trusted_if_it_is_right_and_not_otherwise(judge: str) -> None:
    exchanges, says, missed = JUDGES[judge]
    found = check(exchanges, says)
    assert {part.figure for part in found.checks if part.mark == "FAIL"} == missed
    assert found.is_trusted is not bool(missed)


def of(found: JudgeCheck, figure: str) -> Check:
    (part,) = [part for part in found.checks if part.figure == figure]
    return part


def test_figures_of_an_order_are_over_requests() -> None:
    found = check(RATINGS, lambda e: rated(e.place))
    estimate = of(found, "rank_agreement").estimate
    assert estimate
    assert estimate.value == pytest.approx(1)
    assert estimate.n == 20
    assert 0.6 < estimate.lower < 0.7
    assert of(found, "rank_agreement").headline.startswith(
        "judge w rank_agreement 1.00 ["
    )


def test_a_lowered_floor_of_an_order_is_named() -> None:
    minimums = JudgeMinimums.model_validate({"rank_agreement": {"min": 0}})
    found = check(RATINGS, lambda e: rated(-1), minimums)
    assert found.is_trusted
    assert "rank_agreement 0.00, below 0.70" in (found.below_usual_minimums)
    assert "specificity" not in found.below_usual_minimums


ALL_SETS = {"degrees", "ratings", "harm", "choices"}


@pytest.mark.parametrize(
    ("minimums", "tells"),
    [
        ({}, ALL_SETS),
        ({"rank_agreement": {"min": 0}}, {"degrees", "harm", "choices"}),
        ({"specificity": {"min": 0.1}}, {"degrees", "ratings"}),
        (
            {"specificity": {"min": 0.5}, "sensitivity": {"min": 0.5}},
            {"degrees", "ratings"},
        ),
        ({"specificity": {"min": 0.51}, "sensitivity": {"min": 0.5}}, ALL_SETS),
        (
            {"specificity": {"min": 0.5}, "sensitivity": {"min": 0.51}},
            ALL_SETS - {"choices"},
        ),
    ],
)
def test_floors_that_a_constant_judge_of_a_scale_reaches_tell_nothing(
    minimums: dict[str, object], tells: set[str]
) -> None:
    limits = JudgeMinimums.model_validate(minimums)
    found = {
        exchanges.measures
        for exchanges in (DEGREES, RATINGS, OF_HARM, CHOICES)
        if limits.tell(exchanges)
    }
    assert found == tells
