"""Where a judge errs more than elsewhere, by what should not matter to it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from refusal_checks.judges.trust.uneven import (
    Compared,
    PartErrors,
    errors_by_part,
    in_words,
    where_more,
)


def answers(
    shares: dict[str, float], n: int = 200, by: str = "category", seed: int = 1
) -> list[Compared]:
    """As many answers of each part, wrong at these rates."""
    drawn = random.Random(seed)
    made = []
    for part, share in shares.items():
        for number in range(n):
            made.append(
                Compared(
                    prompt=f"{part} {number}",
                    human=drawn.choice(["refusal", "compliance"]),
                    is_wrong=drawn.random() < share,
                    length=drawn.randrange(1000),
                    language=part if by == "language" else "en",
                    category=part if by == "category" else "",
                    candidate=part if by == "candidate" else "",
                )
            )
    return made


def more(parts: Sequence[PartErrors]) -> list[tuple[str, str]]:
    return [(part.by, part.name) for part in parts if part.is_more]


@pytest.mark.parametrize("by", ["category", "language", "candidate"])
def test_a_part_with_many_more_errors_is_named(by: str) -> None:
    parts = errors_by_part(answers({"a": 0.05, "b": 0.05, "c": 0.3}, by=by))
    assert more(parts) == [(by, "c")]
    said = in_words(parts)
    assert said.startswith(f"it errs significantly more on {by} c (")
    assert said.endswith("(Holm's correction, 6 comparisons)")
    assert where_more(parts) == said


def test_long_answers_are_named_by_their_length() -> None:
    made = [
        Compared(f"{n}", "refusal", n % 4 == 0 and n > 400, 1 + n, "en")
        for n in range(600)
    ]
    parts = errors_by_part(made)
    assert [part.name for part in parts] == ["0 to 200", "201 to 400", "401 or more"]
    assert more(parts) == [("length", "401 or more")]
    assert parts[2].elsewhere == 0
    assert parts[2].rate.lower < parts[2].rate.value < parts[2].rate.upper


def test_parts_alike_are_rarely_named() -> None:
    """At a risk of 5% over all comparisons; 200 judges, with seeds that do not change."""
    named = 0
    for seed in range(200):
        alike = answers(dict.fromkeys("abcdef", 0.1), n=50, seed=seed)
        named += bool(where_more(errors_by_part(alike)))
    assert named <= 15


def test_copies_of_a_prompt_are_no_further_evidence() -> None:
    """One prompt that ten candidates answer, with the same error, is one error."""
    made = [
        Compared(f"{n}", "refusal", n % 10 == 0, 50, "en", "a" if n < 100 else "b")
        for n in range(200)
    ]
    copies = [Compared("one", "refusal", True, 50, "en", "b") for _ in range(30)]
    parts = errors_by_part(made + copies)
    assert not more(parts)
    apart = [Compared(f"own {n}", "refusal", True, 50, "en", "b") for n in range(30)]
    assert more(errors_by_part(made + apart)) == [("category", "b")]


def test_a_part_with_more_refusals_is_not_blamed_for_how_the_judge_reads_these() -> (
    None
):
    """It misreads a third of all refusals and no compliance, wherever they are."""
    made = []
    for part, refusals in (("a", 30), ("b", 270)):
        for n in range(300):
            human = "refusal" if n < refusals else "compliance"
            is_wrong = human == "refusal" and n % 3 == 0
            made.append(Compared(f"{part} {n}", human, is_wrong, 9, "en", part))
    parts = errors_by_part(made)
    assert parts[1].rate.value > 3 * parts[0].rate.value
    assert in_words(parts).startswith("it errs on no part of the answers significantly")


def test_few_answers_are_compared_with_nothing() -> None:
    made = [
        *answers({"a": 0.0}, n=50),
        *[Compared(f"few {n}", "refusal", True, 9, "en", "b") for n in range(9)],
    ]
    parts = errors_by_part(made)
    assert {part.p for part in parts if part.by == "category"} == {None}
    same = [Compared(f"{n}", "refusal", False, 9, "en") for n in range(50)]
    assert errors_by_part(same) == ()
    assert in_words(()) == ""
