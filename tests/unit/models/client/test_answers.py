"""The answer of a reasoning model, and the log-probabilities that are its own."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web

from refusal_checks.core.prompts import Message
from refusal_checks.core.records import State
from refusal_checks.models.client.chat_replies import read_reason
from refusal_checks.models.client.client import Client
from refusal_checks.models.client.label_probabilities import (
    TOP,
    LabelError,
    LabelProbabilities,
    read_labels,
)
from refusal_checks.models.client.reasoning import answer_logprobs, split_reasoning
from tests.support.fake_server import FakeServer

GOOD = "好".encode()
HARMONY = "<|channel|>analysis<|message|>"

MARKER = "\n\nFinal answer:"
PARTS = [
    {"type": "thinking", "thinking": []},
    *({"type": "text", "text": t} for t in ("Yes", ".")),
]


@pytest.mark.parametrize(
    ("message", "end", "text", "reasoning"),
    [
        ({"content": None}, "", "", ""),
        # Some servers give parts of a text, and OpenAI's a refusal in a field of its own.
        ({"content": PARTS}, "", "Yes.", ""),
        ({"content": None, "refusal": "No."}, "", "No.", ""),
        ({"content": [{"type": "refusal", "refusal": "No."}]}, "", "No.", ""),
        # The server's parser says what was reasoning.
        ({"content": "\n\nYes.", "reasoning": "Hm."}, "", "Yes.", "closed"),
        ({"content": "Yes.", "reasoning_content": "Hm."}, "", "Yes.", "closed"),
        ({"content": " \n", "reasoning": "Hm."}, "", "", "unclosed"),
        ({"content": f"A{MARKER} B", "reasoning": "Hm."}, MARKER, f"A{MARKER} B", "closed"),
        # A marker ends it.
        ({"content": f"Hm.{MARKER} A{MARKER} B"}, MARKER, f"A{MARKER} B", "closed"),
        ({"content": "Hm. Final answer"}, MARKER, "", "unclosed"),
    ],
)  # fmt: skip
def test_the_answer_is_what_follows_the_reasoning(
    message: dict[str, Any], end: str, text: str, reasoning: str
) -> None:
    assert split_reasoning(message, end) == (text, reasoning)


@pytest.mark.parametrize(
    ("content", "text", "reasoning"),
    [
        ("<think>Hm.</think>\n\nYes.", "Yes.", "closed"),
        ("\n<think>Hm.", "", "unclosed"),
        ("[THINK]Hm.[/THINK]Yes.", "Yes.", "closed"),
        (f"{HARMONY}Hm.<|end|><|channel|>final<|message|>Yes.", "Yes.", "closed"),
        ("analysisWe refuse.assistantfinalYes.", "Yes.", "closed"),
        ("analysisWe refuse.", "", "unclosed"),
        ("analysis用户要求。", "", "unclosed"),
        ('analysis"Hm"? assistantfinalYes.', "Yes.", "closed"),
        (" Yes. ", " Yes. ", ""),
        ("analysis of it", "analysis of it", ""),
        ("Tags like <think> open it.", "Tags like <think> open it.", ""),
    ],
)
def test_thoughts_that_nobody_announced_are_no_answer_either(
    content: str, text: str, reasoning: str
) -> None:
    assert split_reasoning({"content": content}, "") == (text, reasoning)


def tokens(*pieces: str | bytes) -> list[dict[str, Any]]:
    """Tokens with these texts and the log-probabilities -1, -2, ..."""
    return [
        {"token": piece, "logprob": -float(number)}
        if isinstance(piece, str)
        else {"token": "\ufffd", "bytes": list(piece), "logprob": -float(number)}
        for number, piece in enumerate(pieces, 1)
    ]


@pytest.mark.parametrize(
    ("pieces", "text", "reasoning", "expected"),
    [
        (("Hm", "</think>", "\n\n", "Yes", ".", "<eos>"), "Yes.", "closed", [-4, -5, -6]),
        # The marker's last token holds the answer's first characters.
        (("Hm", "Final ans", "wer: Y", "es"), "Yes", "closed", [-3, -4]),
        # The answer's words occur in the reasoning too.
        (("No", "</think>", "No"), "No", "closed", [-3]),
        # A character is divided between two tokens.
        (("想", "</think>", GOOD[:1], GOOD[1:]), "好", "closed", [-3, -4]),
        (("Hm",), "", "unclosed", []),
        (("Hm", "</think>"), "elsewhere", "closed", []),
    ],
)  # fmt: skip
def test_only_the_answers_own_tokens_count(
    pieces: tuple[str | bytes, ...], text: str, reasoning: State, expected: list[float]
) -> None:
    assert answer_logprobs(tokens(*pieces), text, reasoning) == expected


QUESTION = (Message("user", "moral?"),)
YES_NO = ("0", "1")
IDS = {"0": 48, "1": 49}


def ask(server: FakeServer, labels: Sequence[str] = YES_NO) -> LabelProbabilities:
    async def label_probabilities() -> LabelProbabilities:
        async with Client(server.url, "fake") as connection:
            return await connection.label_probabilities(QUESTION, labels)

    return asyncio.run(label_probabilities())


def choice(shown: dict[str, float]) -> dict[str, Any]:
    """A server's choice, by the log-probabilities of the tokens that it shows."""
    listed = [{"token": token, "logprob": value} for token, value in shown.items()]
    return {"logprobs": {"content": [{**listed[0], "top_logprobs": listed}]}}


MANY = {chr(0x4E00 + i): 0.01 for i in range(50)}
"""Tokens that share half of the mass."""


async def overlook(self: FakeServer, request: web.Request) -> web.Response:
    """What llama.cpp's tokenizer says, which takes another field."""
    return web.json_response({"tokens": []})


@pytest.mark.parametrize(
    ("given", "tokenizer", "expected", "outside"),
    [
        (MANY | {"0": 1e-6, "1": 3e-6}, True, {"0": 0.25, "1": 0.75}, 1 - 4e-6),
        (MANY | {"1": 0.5, "0": 0.001}, False, {"0": 0.0, "1": 1.0}, 0.5),
        ({"0": 0.2, "1": 0.6, "x": 0.2}, overlook, {"0": 0.25, "1": 0.75}, 0.2),
    ],
)
def test_labels_are_read(
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, float],
    tokenizer: object,
    expected: dict[str, float],
    outside: float,
) -> None:
    if tokenizer is overlook:
        monkeypatch.setattr(FakeServer, "_tokenize", overlook)
    with FakeServer(tokens=lambda body: given, tokenizer=bool(tokenizer)) as server:
        found = ask(server)
    assert found.probabilities == pytest.approx(expected, abs=1e-12)
    assert found.outside == pytest.approx(outside, abs=1e-12)
    (body,) = server.requests
    assert body["max_tokens"] == 1
    assert body.get("logprob_token_ids") == ([48, 49] if tokenizer is True else None)
    assert tokenizer or body["top_logprobs"] == TOP
    assert not {"response_format", "structured_outputs"} & set(body)


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("eos", "stop"),
        ("model_context_window_exceeded", "length"),
        ("sensitive", "content_filter"),
        (["stop"], "list"),
        (None, "None"),
    ],
)
def test_servers_have_words_of_their_own_for_how_an_answer_ended(
    said: object, read: str
) -> None:
    assert read_reason(said) == read


def test_a_label_of_several_tokens_is_named() -> None:
    with (
        FakeServer(tokens=lambda body: {"1": 1.0}) as server,
        pytest.raises(LabelError, match=r"label '10' is 2 tokens of fake"),
    ):
        ask(server, ("1", "10"))


@pytest.mark.parametrize("logprobs", [None, {"content": [{"token": "1"}]}])
def test_a_server_without_log_probabilities_is_told_apart(logprobs: object) -> None:
    with pytest.raises(LabelError, match="no log-probabilities"):
        read_labels({"logprobs": logprobs}, YES_NO, None)


@pytest.mark.parametrize(
    ("shown", "ids", "expected", "outside"),
    [
        ({"x": 0.0, "0": -math.inf, "1": -math.inf}, None, {"0": 0.5, "1": 0.5}, 1.0),
        # Below the smallest float they keep their proportion.
        ({"x": 0.0, "0": -5000.0, "1": math.log(3) - 5000}, IDS, {"0": 0.25, "1": 0.75}, 1.0),
        # A server that ignores the tokens is read by text.
        ({"1": math.log(0.9), "x": math.log(0.1)}, IDS, {"0": 0.0, "1": 1.0}, 0.1),
        *(
            ({f"{space}1": math.log(0.5), "1": math.log(0.25), f"{space}0": math.log(0.125),
              "x": math.log(0.125)}, None, {"0": 1 / 7, "1": 6 / 7}, 0.125)
            for space in (" ", "\u2581", "\u0120")
        ),
    ],
)  # fmt: skip
def test_labels_are_read_as_far_as_they_are_shown(
    shown: dict[str, float],
    ids: dict[str, int] | None,
    expected: dict[str, float],
    outside: float,
) -> None:
    found = read_labels(choice(shown), YES_NO, ids)
    assert found.probabilities == pytest.approx(expected)
    assert found.outside == pytest.approx(outside)


def test_a_log_probability_that_is_no_number_gives_no_label() -> None:
    with pytest.raises(ValueError, match="not a number"):
        read_labels(choice({"0": math.nan, "1": -0.1}), YES_NO, None)
