"""The answer of a reasoning model, and the log-probabilities that are its own."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusal_checks.models.client.answers import Spoken, answer_logprobs, spoken

GOOD = "好".encode()
MARKER = "\n\nFinal answer:"


@pytest.mark.parametrize(
    ("message", "end", "expected"),
    [
        ({"content": "Yes."}, "", Spoken("Yes.")),
        ({"content": None}, "", Spoken("")),
        ({"content": " Yes. "}, "", Spoken(" Yes. ")),
        # Some servers give parts of a text, and OpenAI's a refusal in a field of its own.
        (
            {"content": [{"type": "text", "text": "Yes"}, {"type": "text", "text": "."}]},
            "",
            Spoken("Yes."),
        ),
        (
            {"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "Yes."}]},
            "",
            Spoken("Yes."),
        ),
        ({"content": None, "refusal": "No."}, "", Spoken("No.")),
        ({"content": "Yes.", "refusal": None}, "", Spoken("Yes.")),
        # The server's parser says what was reasoning.
        ({"content": "Yes.", "reasoning": "Hm."}, "", Spoken("Yes.", "closed")),
        ({"content": "Yes.", "reasoning_content": "Hm."}, "", Spoken("Yes.", "closed")),
        ({"content": None, "reasoning": "Hm."}, "", Spoken("", "unclosed")),
        ({"content": " \n", "reasoning": "Hm."}, "", Spoken("", "unclosed")),
        ({"content": "\n\nYes.", "reasoning": "Hm."}, "", Spoken("Yes.", "closed")),
        ({"content": "Yes.", "reasoning": ""}, "", Spoken("Yes.")),
        ({"content": f"A{MARKER} B", "reasoning": "Hm."}, MARKER, Spoken(f"A{MARKER} B", "closed")),
        # A marker ends it.
        ({"content": f"Hm.{MARKER} Yes."}, MARKER, Spoken("Yes.", "closed")),
        ({"content": f"Hm.{MARKER} A{MARKER} B"}, MARKER, Spoken(f"A{MARKER} B", "closed")),
        ({"content": f"Hm.{MARKER}"}, MARKER, Spoken("", "closed")),
        ({"content": "Hm. Final answer"}, MARKER, Spoken("", "unclosed")),
        ({"content": ""}, MARKER, Spoken("", "unclosed")),
        # Thoughts that nobody announced are no answer either.
        ({"content": "<think>Hm.</think>\n\nYes."}, "", Spoken("Yes.", "closed")),
        ({"content": "\n<think>Hm."}, "", Spoken("", "unclosed")),
        ({"content": "Tags like <think> open it."}, "", Spoken("Tags like <think> open it.")),
    ],
)
def test_the_answer_is_what_follows_the_reasoning(
    message: dict[str, Any], end: str, expected: Spoken
) -> None:
    assert spoken(message, end) == expected


@pytest.mark.parametrize("content", [7, {"text": "Yes."}, ["Yes."], [{"type": "text"}]])
def test_what_is_no_text_is_no_answer(content: Any) -> None:
    with pytest.raises((LookupError, TypeError, AttributeError)):
        spoken({"content": content})


def tokens(*pieces: str | bytes) -> list[dict[str, Any]]:
    """Tokens with these texts and the log-probabilities -1, -2, ..."""
    return [
        {"token": piece, "logprob": -float(number)}
        if isinstance(piece, str)
        else {"token": "\ufffd", "bytes": list(piece), "logprob": -float(number)}
        for number, piece in enumerate(pieces, 1)
    ]


@pytest.mark.parametrize(
    ("pieces", "said", "expected"),
    [
        (("Yes", "."), Spoken("Yes."), [-1, -2]),
        (("Hm", "</think>", "\n\n", "Yes", ".", "<eos>"), Spoken("Yes.", "closed"), [-4, -5, -6]),
        # The marker's last token holds the answer's first characters.
        (("Hm", "Final ans", "wer: Y", "es"), Spoken("Yes", "closed"), [-3, -4]),
        # The answer's words occur in the reasoning too.
        (("No", "</think>", "No"), Spoken("No", "closed"), [-3]),
        # A character is divided between two tokens.
        (
            ("想", "</think>", GOOD[:1], GOOD[1:]),
            Spoken("好", "closed"),
            [-3, -4],
        ),
        (("Hm",), Spoken("", "unclosed"), []),
        (("Hm", "</think>"), Spoken("elsewhere", "closed"), []),
    ],
)
def test_only_the_answers_own_tokens_count(
    pieces: tuple[str | bytes, ...], said: Spoken, expected: list[float]
) -> None:
    assert answer_logprobs(tokens(*pieces), said) == expected


@given(
    thought=st.text(min_size=1).filter(lambda text: MARKER not in text),
    answer=st.text(min_size=1).filter(str.strip),
    cuts=st.lists(st.integers(0, 200), max_size=8),
)
def test_any_tokenisation_of_a_marked_answer_is_read_alike(
    thought: str, answer: str, cuts: list[int]
) -> None:
    text = f"{thought}{MARKER}{answer}"
    said = spoken({"content": text}, MARKER)
    assert said.reasoning == "closed"
    assert said.text == text.split(MARKER, 1)[1].lstrip()
    raw = text.encode(errors="replace")
    places = sorted({0, len(raw), *(cut % (len(raw) + 1) for cut in cuts)})
    pieces = [raw[a:b] for a, b in pairwise(places)]
    values = answer_logprobs(tokens(*pieces), said)
    assert values == [-float(n) for n in range(len(pieces) - len(values) + 1, len(pieces) + 1)]
    assert values
