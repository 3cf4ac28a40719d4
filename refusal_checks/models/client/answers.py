"""Reads the answers of a chat-completions server, and separates them from their reasoning."""

from __future__ import annotations

import base64
import math
import re
import zlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import Any, Self

from refusal_checks.core.errors import EndpointError
from refusal_checks.core.records import Completion, State
from refusal_checks.core.text import storable
from refusal_checks.core.verdicts import ABORTED
from refusal_checks.models.client.server_errors import TransientError

MALFORMED = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""What reading an answer of an unexpected form raises."""

_LONGEST_REASON = 64  # characters of a finish reason; the longest known has 15


def fills(
    answer: Completion, prompt: int, limit: int, asked: int, context: int | None
) -> bool:
    """True if the context ended an answer before it had as many tokens as were ``asked`` for."""
    if answer.finish_reason != "length" or not 0 < answer.tokens < asked:
        return False
    return answer.tokens >= limit or bool(context and prompt + answer.tokens >= context)


def read_choices(
    response: Any, n: int, reasoning_end: str = ""
) -> tuple[Completion, ...]:
    """Read ``n`` answers from a server's response, in the order of their index."""
    listed = sorted(
        response["choices"], key=lambda choice: int(choice.get("index") or 0)
    )
    if len(listed) != n:
        raise TransientError(f"asked the server for {n} answers, got {len(listed)}")
    total = tokens(response)[2] if n == 1 else 0
    return tuple(_choice(choice, reasoning_end, total) for choice in listed)


def require_finished(response: Any, finished: frozenset[str] | None = None) -> None:
    """Raise TransientError if the server broke an answer off, for example because it was ended.

    ``finished`` are the only words by which this server says that an answer is whole or was cut by
    a limit; where they are not known, only ``ABORTED`` counts.
    """
    for choice in response["choices"]:
        reason = read_reason(choice.get("finish_reason"))
        if reason in ABORTED or (finished and reason not in finished):
            raise TransientError(
                f"the server broke an answer off: finish reason {reason!r}"
            )


def _choice(choice: Mapping[str, Any], reasoning_end: str, total: int) -> Completion:
    """Read a choice; ``total`` is its number of tokens by the server's count, 0 without one."""
    text, reasoning = split_reasoning(choice["message"], reasoning_end)
    listed = (choice.get("logprobs") or {}).get("content") or []
    mean = mean_logprob(listed, text, reasoning)
    ids = choice.get("token_ids") or ()
    reason = read_reason(choice.get("finish_reason"))
    count = total or len(listed) or len(ids)
    written = storable(text)
    return Completion(
        written, reason, count, mean, reasoning=reasoning, token_ids=packed(ids)
    )


def packed(ids: Sequence[int]) -> str:
    """Numbers of tokens as text, about three characters each; empty for none."""
    return (
        base64.b64encode(zlib.compress(array("I", ids).tobytes(), 1)).decode()
        if ids
        else ""
    )


def unpacked(text: str) -> list[int]:
    return array("I", zlib.decompress(base64.b64decode(text))).tolist()


def read_scores(response: Any, ids: Sequence[int]) -> list[dict[str, Any]]:
    """The log-probability and text of each of the last tokens of a prompt, which have these ids."""
    listed = response["choices"][0]["prompt_logprobs"][-len(ids) :]
    each = [shown[str(number)] for shown, number in zip(listed, ids, strict=True)]
    return [
        {"logprob": one["logprob"], "token": one.get("decoded_token") or ""}
        for one in each
    ]


def read_reason(given: Any) -> str:
    """Why an answer ended; short enough to be shown."""
    if given in (
        "stop",
        "eos_token",
        "stop_sequence",
        "end_turn",
    ):  # TGI's words, and Anthropic's
        return "stop"  # one text for nearly all answers
    text = given if isinstance(given, str) or given is None else type(given).__name__
    return storable(str(text)[:_LONGEST_REASON])


_REASONING = (
    (r"<think>", "</think>"),
    (r"\[THINK\]", "[/THINK]"),
    (r"<\|channel\|>analysis", "<|channel|>final<|message|>"),
    (r"analysis(?=[A-Z])", "assistantfinal"),
)
"""How texts begin that hold their reasoning (R1, Qwen; Mistral; gpt-oss, with its tokens and with
these dropped), and what ends it."""


def split_reasoning(message: Mapping[str, Any], end: str = "") -> tuple[str, State]:
    """The answer in a server's message without the reasoning, empty if that did not end.

    A server with a reasoning parser has a field of its own for the reasoning. Without one, the
    reasoning ends at the first ``end`` in the text, which may be any number of tokens, or where it
    usually ends after such a beginning.
    """
    text = written(message)
    if message.get("reasoning") or message.get("reasoning_content"):
        return text.lstrip(), "closed" if text.strip() else "unclosed"
    if not end:
        begun = (
            close for opened, close in _REASONING if re.match(rf"\s*{opened}", text)
        )
        end = next(begun, "")
    if not end:
        return text, ""
    _, ended, answer = text.partition(end)
    return (answer.lstrip(), "closed") if ended else ("", "unclosed")


_SAID = ("text", "output_text", "refusal")
"""Kinds of a message's parts that are the answer; the others are reasoning, pictures and calls."""


def written(message: Mapping[str, Any]) -> str:
    """The text of a message; some servers give it in parts, or a refusal in another field."""
    content = message.get("content") or message.get("refusal") or ""
    if isinstance(content, list):
        parts = (part for part in content if part.get("type") in _SAID)
        content = "".join(
            part["refusal" if part["type"] == "refusal" else "text"] for part in parts
        )
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
    return min(0.0, sum(values) / len(values)) if values else None


def answer_logprobs(
    tokens: Sequence[Mapping[str, Any]], text: str, reasoning: State
) -> list[float]:
    """Log-probabilities of the tokens that belong to the answer, in order.

    They are those of all tokens if there was no reasoning, and none if the answer cannot be found
    among the tokens that the server lists.
    """
    values = [float(token["logprob"]) for token in tokens]
    if not reasoning:
        return values
    # A character may span two tokens.
    pieces = [
        bytes(known)
        if isinstance(known := token.get("bytes"), list) and known
        else str(token.get("token", "")).encode(errors="replace")
        for token in tokens
    ]
    answer = text.strip().encode(errors="replace")
    start = b"".join(pieces).rfind(answer) if answer else -1
    ends = accumulate(map(len, pieces))
    first = next((index for index, end in enumerate(ends) if end > start), len(values))
    return values[first:] if start >= 0 else []


TOP = 20  # most probable tokens to ask for, the most that servers allow, if labels cannot be named

_SPACES = (
    "",
    " ",
    "\N{LOWER ONE EIGHTH BLOCK}",
    "\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}",
)
"""What may precede a label in its token: nothing, or the space that begins an answer, as it is or
as tokenizers write it."""


class LabelError(EndpointError):
    """The server cannot give these labels' probabilities, whatever the conversation."""


@dataclass(frozen=True)
class LabelProbabilities:
    """How probable each label is as the first token of an answer."""

    # by label, renormalised so that they sum to 1; uniform if the server showed none of the labels
    probabilities: Mapping[str, float]
    outside: float  # probability of everything else, in [0, 1]
    # how much of outside may belong to the labels, in [0, outside]. It is 0 if the server was asked
    # for the labels. If it only gives its TOP most probable tokens, a label that is not among them
    # counts as 0; it can be as probable as the last of them.
    unseen: float = 0.0


def label_fields(ids: Mapping[str, int] | None) -> dict[str, Any]:
    """The fields of a request for labels' probabilities; ``ids`` if the server takes tokens."""
    # Some servers apply sampling settings to the probabilities; these settings change nothing.
    fields: dict[str, Any] = {"n": 1, "temperature": 1.0, "top_p": 1.0, "max_tokens": 1}
    fields |= {"logprobs": True, "top_logprobs": TOP}
    if ids is not None:
        tokens = {
            "logprob_token_ids": list(ids.values()),
            "return_tokens_as_token_ids": True,
        }
        fields |= {"top_k": 0, **tokens}
    return fields


def read_first_tokens(choice: Mapping[str, Any]) -> list[tuple[str, float]]:
    """The tokens that an answer could begin with, each with its log-probability, at most 0.

    Raises LabelError if the server lists none.
    """
    tokens = (choice.get("logprobs") or {}).get("content") or []
    listed = (tokens[0].get("top_logprobs") if tokens else None) or []
    if not listed:
        raise LabelError(
            "the server returns no log-probabilities of the tokens it could choose"
        )
    shown = [
        (str(token["token"]), min(float(token["logprob"]), 0.0)) for token in listed
    ]
    if any(math.isnan(value) for _, value in shown):
        raise ValueError("a log-probability is not a number")
    return shown


def read_labels(
    choice: Mapping[str, Any], labels: Sequence[str], ids: Mapping[str, int] | None
) -> LabelProbabilities:
    shown = read_first_tokens(choice)
    by_label = {}
    for label in labels:
        # A server that knows the tokens may still show their text.
        names = {mark + label for mark in _SPACES} | (
            {f"token_id:{ids[label]}"} if ids else set()
        )
        by_label[label] = [value for token, value in shown if token in names]
    seen = [
        value for values in by_label.values() for value in values if value > -math.inf
    ]
    # Relative to the largest, so that tiny probabilities keep their proportions.
    weights = {
        label: math.fsum(math.exp(value - max(seen)) for value in values)
        if seen
        else 1.0
        for label, values in by_label.items()
    }
    total = math.fsum(weights.values())
    outside = min(1.0, max(0.0, 1.0 - math.fsum(map(math.exp, seen))))
    missing = sum(not values for values in by_label.values())
    rest = max(0.0, 1.0 - math.fsum(math.exp(value) for _, value in shown))
    return LabelProbabilities(
        {label: weight / total for label, weight in weights.items()},
        outside,
        min(outside, rest, missing * math.exp(min(value for _, value in shown))),
    )


_MOST = (
    10**9
)  # more tokens than any request has; a larger number may be too long to be written


def tokens(response: Any) -> tuple[int, int, int]:
    """Prompt, cached and output tokens of a server's answer; 0 where it does not say."""
    try:
        usage = response["usage"]
        details = usage.get("prompt_tokens_details") or {}
        prompt, output = (
            int(usage["prompt_tokens"]),
            int(usage.get("completion_tokens") or 0),
        )
        cached = int(details.get("cached_tokens") or 0)
    except MALFORMED:
        return 0, 0, 0
    prompt, output = min(max(prompt, 0), _MOST), min(max(output, 0), _MOST)
    return prompt, min(max(cached, 0), prompt), output


@dataclass(slots=True)
class Usage:
    """The cost of answered requests; change it in the thread that asks."""

    requests: int = 0
    retries: int = 0  # attempts after the first one
    prompt: int = 0  # tokens of prompts, of which cached were in a prefix cache, if the server says
    cached: int = 0
    output: int = 0  # generated tokens
    verdicts: int = 0  # verdicts asked for; 0 for a candidate

    def __add__(self, other: Self) -> Self:
        names = [field.name for field in fields(self)]
        return type(self)(
            *(getattr(self, name) + getattr(other, name) for name in names)
        )

    def count(self, response: Any) -> None:
        prompt, cached, output = tokens(response)
        self.requests += 1
        self.prompt += prompt
        self.cached += cached
        self.output += output
