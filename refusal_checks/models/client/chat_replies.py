"""Read the answers of a chat-completions server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from refusal_checks.core.judgements import ABORTED
from refusal_checks.core.records import Completion, State
from refusal_checks.core.text import replace_surrogates
from refusal_checks.models.client.reasoning import (
    mean_logprob,
    prepend_reasoning,
    split_reasoning,
)
from refusal_checks.models.client.server_errors import ANSWERED, TransientError
from refusal_checks.models.client.usage import token_counts
from refusal_checks.models.tool_calls import CALLED, append_tool_calls

LEAST = 128
"""With fewer tokens than this, an answer was not ended by the context."""

_LONGEST_REASON = 64  # characters of a finish reason; the longest known has 15


def is_cut_by_context(
    answer: Completion, response: Any, limit: int, asked: int, context: int | None
) -> bool:
    """True if the context ended an answer before it had the tokens that were ``asked`` for."""
    if answer.finish_reason != "length" or not (
        min(LEAST, asked) <= answer.tokens < asked
    ):
        return False
    if answer.tokens >= limit:
        return True
    return context is not None and token_counts(response)[0] + answer.tokens >= context


def read_choices(
    response: Any, n: int, reasoning_end: str = "", *, judge_reasoning: bool = False
) -> tuple[Completion, ...]:
    """Read ``n`` answers from a server's response, ordered by index.

    Some servers give one, whatever ``n`` is. With ``judge_reasoning``, the reasoning is a part of
    each answer.
    """
    listed = sorted(
        response["choices"], key=lambda choice: int(choice.get("index") or 0)
    )
    if len(listed) not in (1, n):
        raise TransientError(
            f"the server's reply has {len(listed)} answers in place of {n}", ANSWERED
        )
    # Of several answers, usage has the sum alone.
    total = token_counts(response)[2] if len(listed) == 1 else 0
    answers = []
    for choice in listed:
        answer = _choice(choice, reasoning_end, total)
        if judge_reasoning:
            answer = add_reasoning(answer, choice["message"], reasoning_end)
        answers.append(answer)
    return tuple(answers)


def require_finished(response: Any, finished: frozenset[str] | None = None) -> None:
    """Raise TransientError if the server cut an answer off, for example because it shut down.

    ``finished`` lists the finish reasons by which this server marks an answer as whole or cut by a
    limit. If they are unknown, only ``ABORTED`` counts as broken off.
    """
    for choice in response["choices"]:
        reason = read_reason(choice.get("finish_reason"))
        if reason in ABORTED or (finished and reason not in finished):
            raise TransientError(
                f"the server broke an answer off: finish reason {reason!r}"
            )


def _choice(choice: Mapping[str, Any], reasoning_end: str, total: int) -> Completion:
    """Read a choice; ``total`` is the server's count of its tokens, 0 if it gives none."""
    message = choice["message"]
    text, reasoning = split_reasoning(message, reasoning_end)
    listed = (choice.get("logprobs") or {}).get("content") or []
    mean = mean_logprob(listed, text, reasoning)
    count = total or len(listed) or len(choice.get("token_ids") or ())
    answer = Completion(
        replace_surrogates(text),
        read_reason(choice.get("finish_reason")),
        count,
        mean,
        reasoning=reasoning,
    )
    return add_tool_calls(answer, message)


def add_tool_calls(answer: Completion, message: Mapping[str, Any]) -> Completion:
    """The answer with its message's tool calls, which may end it like words."""
    text = append_tool_calls(answer.text, message)
    if text == answer.text:
        return answer
    reason = "stop" if answer.finish_reason in CALLED else answer.finish_reason
    # The calls come after the reasoning, whether or not words stand between.
    reasoning: State = "closed" if answer.reasoning else ""
    return replace(
        answer, text=replace_surrogates(text), finish_reason=reason, reasoning=reasoning
    )


def add_reasoning(
    answer: Completion, message: Mapping[str, Any], reasoning_end: str
) -> Completion:
    """The answer with its reasoning, to be judged with it."""
    if answer.reasoning != "closed" or not answer.text.strip():
        return answer
    text = replace_surrogates(prepend_reasoning(answer.text, message, reasoning_end))
    return replace(answer, text=text, reasoning="judged")


REASONS: Mapping[str, str] = {
    # by itself: OpenAI's word, TGI's, Anthropic's two, and Together's
    "stop": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "eos": "stop",
    # by a limit: OpenAI's word, Anthropic's two, and Inspect's
    "length": "length",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "model_length": "length",
    # by a filter: OpenAI's word, Anthropic's, and Zhipu's
    "content_filter": "content_filter",
    "refusal": "content_filter",
    "sensitive": "content_filter",
}
"""Servers' words for why an answer ended, each with the usual one."""


def read_reason(given: Any) -> str:
    """Read why an answer ended, cut to fit into messages."""
    if isinstance(given, str) and given in REASONS:
        return REASONS[given]  # one text for nearly all answers
    text = given if isinstance(given, str) or given is None else type(given).__name__
    return replace_surrogates(str(text)[:_LONGEST_REASON])
