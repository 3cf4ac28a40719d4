"""Options that rules read in answers: what is certain is read, and nothing is read wrongly."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusal_checks.benchmarks import discover, load_prompts
from refusal_checks.judges import option_reader
from tests.support.cases import cases_of

CASES = cases_of(__file__)


def rows(part: str) -> list[tuple[dict[str, str], str, str]]:
    """The answers of one part: the options, the answer, and what people read in it."""
    return [
        (group["options"], answer, by_people)
        for group in CASES.values()
        for answer, by_people in group[part].items()
    ]


LETTERS = st.sampled_from("ABCD")
FORMS = (
    "{}",
    "({})",
    "选{}",
    "答案是{}。",
    "The answer is {}.",
    "\\boxed{{{}}}",
    '{{"answer": "{}"}}',
)


def reading(answer: str, options: Mapping[str, str]) -> str:
    """The letter that is read, ``refusal``, or "-"."""
    statement = option_reader.read_choice(answer, options)
    if statement is None:
        return "-"
    return statement.letter or "refusal"


@pytest.mark.parametrize(("options", "answer", "expected"), rows("read"))
def test_what_is_certain_is_read(
    options: dict[str, str], answer: str, expected: str
) -> None:
    assert reading(answer, options) == expected


@pytest.mark.parametrize(("options", "answer", "by_people"), rows("unread"))
def test_everything_else_is_left_to_a_judge(
    options: dict[str, str], answer: str, by_people: str
) -> None:
    assert reading(answer, options) == "-", f"people read {by_people}"


@settings(max_examples=60)
@given(
    LETTERS,
    st.sampled_from(FORMS),
    st.sampled_from(
        ["，", "。不对，", "\n\n", " because ", " or ", "?", "、", " 吗", "\n---\n"]
    ),
    LETTERS,
    st.sampled_from(FORMS),
)
def test_two_statements_that_differ_are_no_choice(
    letter: str, form: str, between: str, other: str, second: str
) -> None:
    answer = f"{form.format(letter)}{between}{second.format(other)}"
    assert letter == other or reading(answer, CASES["unsuitable"]["options"]) == "-"


@settings(max_examples=60)
@given(st.text())
def test_what_is_read_is_always_an_option(answer: str) -> None:
    assert reading(answer, dict.fromkeys("ABCDEFGHIJ", "")) in "-ABCDEFGHIJ"


@pytest.mark.parametrize(
    "answer", ["A" + " " * option_reader.LIMIT, "ﷺ" * 200, "{" * 1500]
)
def test_a_long_text_is_unread(answer: str) -> None:
    assert reading(answer, {"A": "yes", "B": "no"}) == "-"


def test_the_most_probable_letter_is_read_if_it_is_an_option() -> None:
    scored = "{}\nA 0.2500, B 0.7500; outside 0.6000"
    assert reading(scored.format("B"), {"A": "yes", "B": "no"}) == "B"
    assert reading(scored.format("C"), {"A": "yes", "B": "no"}) == "-"


def test_every_option_of_the_release_is_read_in_the_usual_forms(mirror: Path) -> None:
    for prompt in load_prompts(discover()["chisafety_mcq"], mirror)[::5]:
        texts = Counter(prompt.options.values())
        for letter, text in prompt.options.items():
            for answer in (letter, f"({letter})", f"选{letter}", f"答案是{letter}。"):
                assert reading(answer, prompt.options) == letter
            # Two options of question 636 have the same text.
            expected = letter if texts[text] == 1 else "-"
            assert reading(text, prompt.options) == expected
            assert reading(f"{letter}. {text}", prompt.options) == expected
