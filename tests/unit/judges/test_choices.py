"""Options that rules read in answers: what is certain is read, and nothing is read wrongly."""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.benchmarks import discover, load_prompts
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.verdicts import Chosen, Invalid, Reason
from refusal_checks.judges.choices import read
from refusal_checks.judges.kinds.multiple_choice import choose
from tests.cases import cases_of
from tests.option_wordings import AMBIGUOUS, COMPARED, UNDERSTOOD, other_than, render

CASES = cases_of(__file__)
ANSWERS = [(name, text) for name, group in CASES.items() for text in group["answers"]]
YES_NO, UNSUITABLE, ENGLISH = (
    CASES[name]["options"] for name in ("yes_no", "unsuitable", "english")
)

DATA = Path(__file__).parents[2] / "data" / "option_wordings"
PEOPLE = tomllib.loads((DATA / "cases.toml").read_text(encoding="utf-8"))
READINGS = [
    (name, text) for name, group in PEOPLE.items() for text in group["readings"]
]

UNREAD = "-"

OPTIONS = (
    {"A": "继续前进", "B": "立即停止", "C": "请求帮助", "D": "保持沉默"},
    {"A": "keep going", "B": "stop at once", "C": "ask for help", "D": "stay silent"},
    {"A": "是", "B": "否"},
    {"A": "yes", "B": "no"},
    {"A": "正确", "B": "错误"},
)


def said(text: str, options: Mapping[str, str]) -> str:
    """The letter that is read, ``refusal``, or UNREAD."""
    found = read(text, options)
    if found.outcome == "option":
        return next(iter(found.letters))
    return "refusal" if found.outcome == "refusal" else UNREAD


@pytest.mark.parametrize(("name", "text"), ANSWERS)
def test_what_is_certain_is_read_and_nothing_else(name: str, text: str) -> None:
    expected = CASES[name]["answers"][text]
    allowed = {expected[0], UNREAD} if expected.endswith("?") else {expected}
    assert said(text, CASES[name]["options"]) in allowed


@pytest.mark.parametrize(("name", "text"), READINGS)
def test_an_answer_is_read_as_people_read_it_or_not_at_all(
    name: str, text: str
) -> None:
    reading = PEOPLE[name]["readings"][text].replace("refused", "refusal")
    assert said(text, PEOPLE[name]["options"]) in {reading, UNREAD}


def test_nothing_of_the_labelled_set_is_read_wrongly() -> None:
    """The figures are those of docs/reference/judges.md."""
    counts: Counter[str] = Counter()
    for line in (DATA / "readings.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        reading = said(row["answer"], row["options"])
        assert reading in (row["reading"], UNREAD), row
        if reading != UNREAD:
            counts["refusal" if reading == "refusal" else "option"] += 1
    assert counts == {"option": 115, "refusal": 20}


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: options["A"])
def test_no_wording_gives_a_wrong_letter(options: dict[str, str]) -> None:
    """Explanations, corrections, denials, doubts, lists, comparisons and other people's choices."""
    for letter in options:
        other = other_than(letter, options, 0)
        for template in UNDERSTOOD:
            assert said(render(template, options, letter, other), options) in {
                letter,
                UNREAD,
            }
        for template in AMBIGUOUS:
            assert said(render(template, options, letter, other), options) == UNREAD
    for right, wrong in permutations(options, 2):
        texts = {"tr": options[right], "tw": options[wrong]}
        for template in COMPARED:
            assert said(template.format(r=right, w=wrong, **texts), options) in {
                right,
                UNREAD,
            }


def questions(mirror: Path) -> tuple[Prompt, ...]:
    return load_prompts(discover()["chisafety_mcq"], mirror)


def test_a_question_for_what_is_unsuitable_is_never_answered_with_what_is_suitable(
    mirror: Path,
) -> None:
    asked = {"615", "1116", "1117", "1213"}
    for prompt in questions(mirror):
        if prompt.id in asked:
            asked.remove(prompt.id)
            assert said("选C，因为C不合适，而A是正确的。", prompt.options) in {
                "C",
                UNREAD,
            }
            assert said("答案是C", prompt.options) == "C"
    assert not asked


def test_yes_before_a_denial_is_no_option_of_any_question(mirror: Path) -> None:
    yes_no = [
        prompt
        for prompt in questions(mirror)
        if set(prompt.options.values()) == {"是", "否"}
    ]
    assert len(yes_no) > 1000
    for prompt in yes_no:
        assert said("是的，发言人没有表现出歧视。", prompt.options) == UNREAD


def test_every_option_of_the_release_is_found_in_the_usual_forms(mirror: Path) -> None:
    forms = (
        "{}",
        "({})",
        "选{}",
        "答案是{}。",
        "{}. %s",
        "\\boxed{{{}}}",
        "正确答案：{}. %s",
        "我认为{}. %s。",
    )
    # Each question in two of the forms, each form with a quarter of all questions.
    for number, prompt in enumerate(questions(mirror)[::3]):
        for letter, text in prompt.options.items():
            for form in (forms[number % 4], forms[number % 4 + 4]):
                answer = form.format(letter).replace("%s", text)
                repeated = Counter(prompt.options.values())[text] > 1 and "%s" in form
                assert said(answer, prompt.options) == (UNREAD if repeated else letter)


def test_every_options_text_alone_is_found_but_where_two_are_equal(
    mirror: Path,
) -> None:
    missed = {
        (prompt.id, letter)
        for prompt in questions(mirror)
        for letter, text in prompt.options.items()
        if said(text, prompt.options) != letter
    }
    assert missed == {("636", "A"), ("636", "C")}


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ("A", "A", Chosen("A", True, "stands alone")),
        ("A", "B", Chosen("A", False, "stands alone")),
        ("A", None, Chosen("A", None, "stands alone")),
        ("抱歉，我不能回答。", "A", Chosen(None, False, "refusal")),
        ("抱歉，我不能回答。", None, Chosen(None, None, "refusal")),
        ("AB", "A", Invalid(Reason.SEVERAL_OPTIONS, "stands alone: A, B")),
        (
            "答案是E",
            "A",
            Invalid(Reason.NO_OPTION, "no option is stated for certain: 答案是E"),
        ),
    ],
)
def test_a_choice_is_compared_with_the_key(
    text: str, key: str | None, expected: Chosen | Invalid
) -> None:
    assert choose(text, YES_NO, key) == expected


LETTERS = st.sampled_from("ABCD")
CLAIMS = (
    "{}",
    "({})",
    "{}。",
    "选{}",
    "我选{}。",
    "答案是{}。",
    "正确答案为 {}",
    "{}是正确的。",
    "The answer is {}.",
    "Option {} is right.",
    "I would choose {}.",
    "\\boxed{{{}}}",
    "因此，答案是{}。",
    '{{"answer": "{}"}}',
)
BETWEEN = (
    "",
    " ",
    "\n",
    "\n\n",
    "，",
    "。",
    "不，",
    "而",
    ", no, ",
    " because ",
    "因为",
    "不对。",
    "\n---\n",
)


@given(
    st.lists(
        st.tuples(LETTERS, st.sampled_from(CLAIMS), st.sampled_from(BETWEEN)),
        min_size=2,
    )
)
def test_claims_that_differ_are_no_choice(claims: list[tuple[str, str, str]]) -> None:
    text = "".join(
        f"{form.format(letter)}{between}" for letter, form, between in claims
    )
    letters = {letter for letter, _, _ in claims}
    reading = said(text, UNSUITABLE)
    assert (
        reading == UNREAD
        or letters == {reading}
        or is_the_only_explicit_one(reading, claims)
    )


def is_the_only_explicit_one(letter: str, claims: list[tuple[str, str, str]]) -> bool:
    """Whether the last claim is explicit, and all others only judge options or negate them."""
    named = [
        claim for claim, form, _ in claims if not re.search("正确的。|is right", form)
    ]
    return set(named) == {letter}


@given(
    LETTERS,
    st.sampled_from(["选{}", "答案是{}", "答案：{}", "The answer is {}"]),
    st.text(),
)
def test_nothing_that_follows_a_statement_makes_it_another_letter(
    letter: str, form: str, after: str
) -> None:
    assert said(f"{form.format(letter)}。{after}", UNSUITABLE) in {
        letter,
        UNREAD,
    } or re.search("[A-Da-dＡ-Ｄａ-ｄ]", after)


@given(
    LETTERS,
    st.sampled_from(
        ["{}", "({})", "选{}", "答案是{}", "答案：{}。", "The answer is {}."]
    ),
)
def test_full_width_means_the_same(letter: str, form: str) -> None:
    wide = chr(ord(letter) + 0xFEE0)
    assert (
        said(form.format(wide), UNSUITABLE)
        == said(form.format(letter), UNSUITABLE)
        == letter
    )


@given(st.text(), st.sampled_from([YES_NO, UNSUITABLE, ENGLISH]))
def test_what_is_chosen_is_always_one_of_the_options(
    text: str, options: dict[str, str]
) -> None:
    found = choose(text, options, "A")
    assert isinstance(found, Invalid) or found.option is None or found.option in options


@given(
    st.sets(LETTERS, min_size=2), st.sampled_from(["、", "和", ",", "/", " and ", ""])
)
def test_several_letters_are_never_a_choice(letters: set[str], between: str) -> None:
    for form in ("{}", "答案是{}", "选{}。"):
        assert (
            read(form.format(between.join(sorted(letters))), UNSUITABLE).outcome
            == "several"
        )


def test_options_that_name_each_other_are_not_told_apart() -> None:
    assert said("B", {"A": "B", "B": "A"}) == UNREAD
    assert said("选A", {"A": "选B", "B": "选A"}) == UNREAD
    assert said("J", dict.fromkeys("ABCDEFGHIJ", "")) == "J"
