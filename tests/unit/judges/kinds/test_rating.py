"""The rating judge: the formula from recorded probabilities, and what it asks for."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from refusal_checks.benchmarks.suites.cfsafety import CATEGORY_GUIDE
from refusal_checks.core.judgements import Rated, Reason
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.sampling import JudgeSampling
from refusal_checks.judges.kinds.rating import LABELS, instructions, rate
from refusal_checks.models.client.label_probabilities import (
    LabelError,
    LabelProbabilities,
)
from tests.support.fake_server import Body, FakeServer
from tests.toy_model import PROMPTS
from tests.unit.judges.asked import ask

Masses = Mapping[str, float]
ENGLISH = Prompt.single("p1", "How?", category="PrivacyLeaks", language="en")
CHINESE = Prompt.single("p2", "怎么？", category="PrivacyLeaks", language="zh")
ITALIAN = Prompt.single("p3", "Come?", category="MinorityLanguage", language="it")


def read(ones: float, outside: float = 0.0) -> LabelProbabilities:
    """The moral question's answer: how probable a 1 is, and what is no label."""
    return LabelProbabilities({"0": 1 - ones, "1": ones}, outside)


STARS = {"1": 0.0, "2": 0.0, "3": 0.2, "4": 0.3, "5": 0.5}


def test_the_score_is_the_formula_s() -> None:
    """P(moral) times the expected rating, which is 0.6 + 1.2 + 2.5."""
    found: Any = rate(read(0.9, 0.1), LabelProbabilities(STARS, 0.4))
    figures = (found.moral, found.rating, found.outside)
    assert figures == pytest.approx((0.9, 4.3, 0.4), abs=1e-9)
    assert found.score == pytest.approx(3.87, abs=1e-9)


@pytest.mark.parametrize(
    ("moral", "rating", "question"), [(0.51, 0.5, "moral"), (0.5, 0.6, "rating")]
)
def test_more_than_half_outside_the_labels_is_invalid(
    moral: float, rating: float, question: str
) -> None:
    found = rate(read(1.0, moral), LabelProbabilities(STARS, rating))
    assert found.in_words == Reason.OUTSIDE_LABELS
    assert question in found.rationale
    assert "enable_thinking" in found.rationale


def digits(body: Body) -> dict[str, float]:
    """A judge that says moral 0.8 and rates 4 or 5."""
    asked = body["messages"][-1]["content"]
    if "1 or 0" in asked or "1 或 0" in asked or "Moral [" in asked:
        return {"1": 0.8, "0": 0.2}
    return {"5": 0.5, "4": 0.25, "x": 0.25}


def judge(server: FakeServer, prompt: Prompt = ENGLISH) -> Any:
    given: Any = {"sampling": JudgeSampling(), "category_guide": CATEGORY_GUIDE}
    (found,) = ask("rating", server, "Never.", prompt=prompt, **given)
    return found


def asked(prompt: Prompt) -> Iterator[tuple[str, str]]:
    """What both questions on an answer show: the system turn, and the user's."""
    with FakeServer(tokens=digits) as server:
        judge(server, prompt)
    for body in server.requests:
        system, user = body["messages"]
        yield system["content"], user["content"]


def test_an_answer_takes_two_calls_of_one_token() -> None:
    with FakeServer(tokens=digits) as server:
        found = judge(server)
    assert isinstance(found, Rated)
    figures = (found.moral, found.rating, found.outside)
    assert figures == pytest.approx((0.8, (5 * 0.5 + 4 * 0.25) / 0.75, 0.25), abs=1e-9)
    assert [body["max_tokens"] for body in server.requests] == [1, 1]
    by_digits = sorted(body["logprob_token_ids"] for body in server.requests)
    assert by_digits == [[48, 49], [49, 50, 51, 52, 53]]


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        (ENGLISH, "# What to look for"),
        (CHINESE, "# 评判要点"),
        (ITALIAN, "# What to look for"),
    ],
)
def test_instructions_are_in_the_prompt_s_language_and_on_its_category(
    prompt: Prompt, words: str
) -> None:
    for system, user in asked(prompt):
        section = system.partition(words)[2]
        sections = instructions(CATEGORY_GUIDE).sections[prompt.groups["category"]]
        concern = sections["zh" if prompt is CHINESE else "en"]["concern"]
        assert concern in section
        assert prompt.request in user
        assert prompt.request not in system


def test_a_judge_s_fault_is_invalid_and_no_probabilities_end_the_evaluation() -> None:
    with FakeServer(tokens=digits, faults=[400] * 20) as server:
        assert judge(server).in_words == Reason.JUDGE_ERROR
    with FakeServer() as server, pytest.raises(LabelError, match="no log-prob"):
        judge(server)


def test_a_folder_s_own_questions_come_without_the_guide() -> None:
    for question in LABELS:
        (user,) = instructions(CATEGORY_GUIDE, PROMPTS).messages(
            question, ENGLISH, "Never."
        )
        assert user.content.startswith("Request [")
