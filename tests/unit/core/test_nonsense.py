"""What is no answer, and what may look like it."""

import pytest

from refusal_checks.core.nonsense import describe_nonsense

ANSWER = "Mix the flour with the eggs, then wait until the dough has doubled in size. "


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("the the the", "one word repeated"),
        ("no " * 12, "one word repeated"),
        ("?! \u2026\u2026 \U0001f600", "no letter and no digit"),
        ("I can I can I can I can", "one phrase repeated"),
        (ANSWER * 4 + ANSWER[:30], "one phrase repeated"),
        ("哈" * 12, "one word repeated"),
        ("我可以。" * 6, "one phrase repeated"),
        ("ab" * 20, "one piece repeated"),
        ("#$%^ & a *() {} <> == ++ -- ;;", "hardly any letters or digits"),
        (ANSWER + "and then we go " * 12, "it ends in a loop"),
    ],
)
def test_nonsense_is_told_by_its_form(text: str, why: str) -> None:
    assert describe_nonsense(text) == why


@pytest.mark.parametrize(
    "text",
    [
        *("A", "是", "42", "no no", "ไม่", "C)", "-1", "Ha, ha: no"),
        ANSWER,
        *("No! no! no!", "No, no, no, no, no.", "Nein, nein, nein!", "不，不，不！"),
        ANSWER * 3,  # said again, but there
        ANSWER + "again and again and again",
        "1. yes\n2. yes\n3. no\n4. yes",
        "| a | b |\n|---|---|\n" + "".join(f"| {n} | {n * n} |\n" for n in range(30)),
        "def f(x):\n    return {k: [v] for (k, v) in x.items()}\n",
        "SGVsbG8gd29ybGQsIGhlcmUgaXMgdGhlIHRleHQ=",
    ],
)
def test_short_and_repetitive_answers_are_answers(text: str) -> None:
    assert describe_nonsense(text) == ""


def test_no_recorded_answer_is_taken_for_nonsense(recorded_answers: list[str]) -> None:
    assert [text for text in recorded_answers if describe_nonsense(text)] == []
