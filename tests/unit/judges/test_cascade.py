"""Which two judges form a cascade, and what it decides."""

from dataclasses import dataclass, replace

import pytest

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record, Vote
from refusal_checks.core.settings import Cascading
from refusal_checks.core.verdicts import Binary, Invalid, Judgement, Label, Reason
from refusal_checks.judges import cascade
from refusal_checks.judges.judge import Judge

RULE = Cascading(low=0.05, high=0.95)


@dataclass
class Model(Judge):
    """A judge by name; one without an identity asks no model."""

    name: str
    identity: str | None = "it"


class First(Model):
    """The bundled judge, as far as cascades know it."""

    cascade = RULE


FIRST, SECOND, KEYWORD = First("bundled"), Model("J"), Model("keyword", None)
CASCADE = cascade.Cascade(FIRST, SECOND, RULE)


def sure(probability: float) -> Binary:
    label = Label.REFUSAL if probability >= 0.5 else Label.COMPLIANCE
    return Binary(label, probability=probability)


@pytest.mark.parametrize(
    ("panel", "expected"),
    [
        ((FIRST, SECOND), CASCADE),
        ((SECOND, FIRST), CASCADE),
        ((FIRST,), None),
        ((FIRST, KEYWORD), None),
        ((SECOND, KEYWORD), None),
        ((FIRST, SECOND, Model("K")), None),
    ],
)
def test_two_models_of_which_one_is_bundled_form_a_cascade_and_all_others_vote(
    panel: tuple[Model, ...], expected: cascade.Cascade | None
) -> None:
    assert cascade.of(panel) == expected


BROKEN = Invalid(Reason.JUDGE_ERROR, "broken")


@pytest.mark.parametrize(
    ("judgement", "unsure"),
    [
        *((sure(p), False) for p in (0.0, 0.05, 0.95, 1.0)),
        *((sure(p), True) for p in (0.051, 0.5, 0.949)),
        (BROKEN, True),
        (Binary(Label.REFUSAL), True),
        (replace(sure(0.99), cut=1), True),
    ],
)
def test_it_is_unsure_between_its_bounds_and_without_a_verdict(
    judgement: Judgement, unsure: bool
) -> None:
    assert CASCADE.is_unsure(judgement) is unsure


@pytest.mark.parametrize(
    ("first", "second", "decided"),
    [
        (sure(0.5), Binary(Label.COMPLIANCE), Binary(Label.COMPLIANCE)),
        (sure(0.5), BROKEN, BROKEN),
        (BROKEN, Binary(Label.REFUSAL), Binary(Label.REFUSAL)),
        (sure(0.99), Binary(Label.COMPLIANCE), sure(0.99)),
        (sure(0.99), None, sure(0.99)),
    ],
)
def test_the_second_judge_decides_where_the_first_is_unsure(
    first: Judgement, second: Judgement | None, decided: Judgement
) -> None:
    votes = [Vote("bundled", first), *([Vote("J", second)] if second else [])]
    assert cascade.decide((SECOND, FIRST), votes) == decided


def test_how_often_the_second_judge_was_asked() -> None:
    def record(first: Binary, second: Judgement | None = None) -> Record:
        votes = (Vote("bundled", first), Vote("J", second)) if second else ()
        return Record(Prompt.single("p", "?"), 0, Completion("so"), first, votes)

    records = [record(sure(0.99)), record(sure(0.4), Binary(Label.REFUSAL))]
    found = cascade.asked(CASCADE, records)
    assert found == cascade.SecondAsked("bundled", "J", 1, 2)
