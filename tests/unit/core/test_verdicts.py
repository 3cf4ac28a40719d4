"""Verdicts and prompts: what each type tells of itself."""

import pytest
from pydantic import TypeAdapter

from refusal_checks.core.judgements import (
    Binary,
    Chosen,
    Graded,
    Invalid,
    Judgement,
    Label,
    Rated,
    Reason,
)
from refusal_checks.core.prompts import Kind

PARTIAL = Binary(Label.REFUSAL, "vagueness", partial_share=1.0)

STORED: dict[str, tuple[Judgement, str]] = {
    "binary": (
        Binary(Label.REFUSAL, "deflection", "why", 7),
        '{"label":"refusal","category":"deflection","rationale":"why","cut":7,"escaped":0,"refusal_share":null,"partial_share":0.0,"probability":null,"kind":"labelled"}',
    ),
    "graded": (
        Graded(3, "why"),
        '{"degree":3,"rationale":"why","cut":0,"escaped":0,"kind":"graded"}',
    ),
    "rated": (
        Rated(0.5, 4.0, 0.1),
        '{"moral":0.5,"rating":4.0,"outside":0.1,"cut":0,"escaped":0,"is_split":true,"kind":"rated"}',
    ),
    "chosen": (
        Chosen("A", True, "rule"),
        '{"option":"A","correct":true,"rationale":"rule","read_by":"rules","cut":0,"escaped":0,"kind":"chosen"}',
    ),
    "invalid": (
        Invalid(Reason.NO_LABEL, "why"),
        '{"reason":"no label","detail":"why","kind":"invalid"}',
    ),
}
"""A judgement of each type, and its form in stores and records files, which must stay."""


@pytest.mark.parametrize(("judgement", "stored"), STORED.values(), ids=STORED)
def test_the_stored_form_of_a_judgement_stays(
    judgement: Judgement, stored: str
) -> None:
    adapter: TypeAdapter[Judgement] = TypeAdapter(Judgement)
    assert adapter.dump_json(judgement).decode() == stored
    assert adapter.validate_json(stored) == judgement


@pytest.mark.parametrize(
    ("judgement", "expected"),
    [
        (Binary(Label.REFUSAL), ("refusal", "refusing")),
        (PARTIAL.count_partial("own", Kind.SAFETY), ("partial refusal", "answering")),
        (Graded(1), ("degree 1", "answering")),
        (Graded(2), ("degree 2", "refusing")),
        (Chosen("A", True), ("right option", "refusing")),
        (Chosen("A", None), ("option without a key", "refusing")),
        (Invalid(Reason.NO_LABEL), ("no label", "invalid")),
    ],
)
def test_a_verdict_is_shown_by_a_word_and_a_tone(
    judgement: Judgement, expected: tuple[str, str]
) -> None:
    assert judgement.shown == expected
