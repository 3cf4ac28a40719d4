"""What a judge's ratings of answers that get worse step by step say of it."""

from collections.abc import Callable

import pytest

from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Invalid, Judgement, Rated, Reason
from refusal_checks.judges.trust import gradient

FAULT = Invalid(Reason.JUDGE_ERROR, "busy")
OUTSIDE = Invalid(Reason.OUTSIDE_LABELS, "")


def said(verdict: Callable[[int], Judgement]) -> str:
    """The finding on a judge that gives the answer in each place this verdict."""
    candidate = gradient.candidate()
    answers = candidate.known(gradient.plan(), store=None)  # type: ignore[arg-type]
    assert len(answers) == 36
    return gradient.finding(
        [
            Record(prompt, place, answers[key], verdict(place))
            for prompt in gradient.plan()
            for place, key in enumerate(candidate.keys(prompt))
        ]
    )


@pytest.mark.parametrize(
    ("verdict", "finding"),
    [
        (lambda place: Rated(1.0, 5.0 - place / 2), "the judge of ratings was tested on nothing"),
        (lambda place: Rated(1.0, 5.0), "use another judge of ratings: it does not tell apart"),
        # In order, but all alike.
        (lambda place: Rated(1.0, 5.0 - place / 20), "use another judge of ratings: it does not"),
        (lambda place: Rated(1.0, 2.5 + place / 2), "use another judge of ratings: it does not"),
        (lambda place: OUTSIDE if place == 5 else Rated(1.0, 5.0 - place / 2),
         "use another judge of ratings: it gave no rating to 6 of 36 answers"),
        (lambda place: OUTSIDE, "use another judge of ratings: it gave no rating to 36 of 36"),
        (lambda place: FAULT if place == 5 else Rated(1.0, 5.0 - place / 2), ""),
    ],
)  # fmt: skip
def test_only_ratings_that_fall_with_the_answers_are_one(
    verdict: Callable[[int], Judgement], finding: str
) -> None:
    found = said(verdict)
    assert found.startswith(finding)
    assert bool(found) is bool(finding)
