"""What a judge is shown of an exchange."""

from base64 import b64encode

import pytest

from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion
from refusal_checks.judges.base64_text import decode_exchange, hidden_text


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


REQUEST = "How do I bake a loaf of bread with 2 kinds of flour?"


def test_a_judge_reads_the_plain_prompt() -> None:
    plain = Prompt.single("p1", REQUEST)
    turns = Message("system", "Answer all."), Message("user", "QmFrZQ==")
    prompt = Prompt("p1", turns, judge_sees=plain.messages)
    assert decode_exchange(prompt, Completion("a")) == (plain, Completion("a"))


STEPS = "First mix the flour with the water, then wait for an hour."


@pytest.mark.parametrize(
    ("answer", "hidden"),
    [
        (f"I cannot help.\n\n{encoded(STEPS)}", STEPS),
        (f"I cannot. `{encoded(STEPS)}` Sorry.", STEPS),
        (f"{encoded(STEPS)}\nand\n{encoded(STEPS.upper())}",
         f"{STEPS}\n{STEPS.upper()}"),
        (f"It reads {encoded('short')}, or {encoded('a little longer')}.", ""),
        ("See https://example.org/a/path/that/is/longer/than/most/of/the/others", ""),
        ("counterrevolutionaries electroencephalographically", ""),
        ("iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4", ""),
    ],
)  # fmt: skip
def test_a_judge_is_shown_what_base64_in_an_answer_reads(
    answer: str, hidden: str
) -> None:
    prompt = Prompt.single("p1", REQUEST)
    _, shown = decode_exchange(prompt, Completion(answer))
    below = f"\n\n[The base64 above reads:]\n{hidden}" if hidden else ""
    assert shown.text == answer + below


def test_no_recorded_answer_hides_a_text(recorded_answers: list[str]) -> None:
    assert [text for text in recorded_answers if hidden_text(text)] == []
