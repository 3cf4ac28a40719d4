"""Separate an answer from the reasoning before it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from refusal_checks.core.records import State

_REASONING = (
    (re.compile(r"\s*<think>"), "</think>"),
    (re.compile(r"\s*\[THINK\]"), "[/THINK]"),
    (
        re.compile(r"\s*<\|channel\|>(?:analysis|commentary)"),
        "<|channel|>final<|message|>",
    ),
    # Nothing divides the channel's name from the text, which a small Latin letter rarely begins.
    (
        re.compile(r"\s*analysis(?=[^\W_a-z]|.*assistantfinal)", re.DOTALL),
        "assistantfinal",
    ),
)
"""What begins the reasoning in a text (R1, Qwen; Mistral; gpt-oss, with its tokens and without
them), and what ends it."""


_FINAL = re.compile(r"<\|channel\|>final(?: ?<\|constrain\|>\w{1,20})?<\|message\|>")
"""What ends gpt-oss's reasoning if the answer must follow a schema."""


def prepend_reasoning(text: str, message: Mapping[str, Any], end: str = "") -> str:
    """An answer with the reasoning that came before it in a server's message."""
    reasoning = message.get("reasoning") or message.get("reasoning_content")
    if not isinstance(reasoning, str):
        whole = message_text(message)
        reasoning, _, _ = whole.partition(end or _find_end(whole))
    return f"[Reasoning]\n{reasoning.strip()}\n\n[Answer]\n{text}"


def split_reasoning(message: Mapping[str, Any], end: str) -> tuple[str, State]:
    """The answer in a server's message without its reasoning; empty if the reasoning did not end.

    A server with a reasoning parser puts the reasoning into its own field. Without one, the
    reasoning ends at the first ``end`` in the text, which may be several tokens, or where reasoning
    with such a beginning usually ends.
    """
    text = message_text(message)
    # vLLM's and OpenRouter's field, or DeepSeek's and SGLang's.
    if message.get("reasoning") or message.get("reasoning_content"):
        return text.lstrip(), "closed" if text.strip() else "unclosed"
    end = end or _find_end(text)
    if not end:
        return text, ""
    _, marker, answer = text.partition(end)
    if not marker:
        return "", "unclosed"  # all of it was reasoning, which no user sees
    return answer.lstrip(), "closed"


def _find_end(text: str) -> str:
    """The marker that ends the reasoning at a text's beginning; empty if there is no reasoning."""
    for beginning, end in _REASONING:
        if not beginning.match(text):
            continue
        constrained = _FINAL.search(text) if _FINAL.fullmatch(end) else None
        return constrained.group() if constrained else end
    return ""


_ANSWER_PARTS = ("text", "output_text", "refusal")
"""Kinds of a message's parts that are the answer; the others are reasoning, pictures and calls."""


def message_text(message: Mapping[str, Any]) -> str:
    """The text of a message; some servers send it in parts, or a refusal in another field."""
    # OpenAI puts a refusal under a schema into a field of its own, and null into the content.
    content = message.get("content") or message.get("refusal") or ""
    if isinstance(content, list):
        texts = []
        for part in content:
            if part.get("type") in _ANSWER_PARTS:
                is_refusal = part["type"] == "refusal"
                texts.append(part["refusal" if is_refusal else "text"])
        content = "".join(texts)
    if not isinstance(content, str):
        raise TypeError(f"the answer is not text: {type(content).__name__}")
    return content


def mean_logprob(
    tokens: Sequence[Mapping[str, Any]], text: str, reasoning: State
) -> float | None:
    """The mean of ``answer_logprobs``, at most 0; None without any."""
    values = answer_logprobs(tokens, text, reasoning)
    if not math.isfinite(sum(values)):
        raise ValueError(f"the sum of the log-probabilities is {sum(values)}")
    if not values:
        return None
    return min(0.0, sum(values) / len(values))


def answer_logprobs(
    tokens: Sequence[Mapping[str, Any]], text: str, reasoning: State
) -> list[float]:
    """Log-probabilities of the tokens that belong to the answer, in order.

    All tokens count if there was no reasoning, and none if the answer cannot be found among the
    tokens that the server lists.
    """
    values = [float(token["logprob"]) for token in tokens]
    if not reasoning:
        return values
    answer = text.strip().encode(errors="replace")
    pieces = [_token_bytes(token) for token in tokens]
    # The last place: reasoning often drafts the answer word for word.
    start = b"".join(pieces).rfind(answer) if answer else -1
    if start < 0:
        return []
    end = 0
    for index, piece in enumerate(pieces):
        end += len(piece)
        if end > start:
            return values[index:]
    return []


def _token_bytes(token: Mapping[str, Any]) -> bytes:
    """The bytes of a token; a character may span two tokens."""
    listed = token.get("bytes")
    if isinstance(listed, list) and listed:
        return bytes(listed)
    return str(token.get("token", "")).encode(errors="replace")
