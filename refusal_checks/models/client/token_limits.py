"""Read from a server's refusal how many tokens to request."""

import re

LEAST = 128
"""Fewest tokens that an answer gets; where the context leaves fewer the prompt is too long."""


_MOST = re.compile(
    r"(?:max_model_len ?= ?|context (?:length|size|window)\D{0,12}|at most |must be <= |> ?|"
    r"less than or equal to `?|range of max_tokens is \[1, ?)(\d{1,9})",
    re.IGNORECASE,
)
"""The most that a server's refusal allows: of an answer, or of prompt and answer together."""


_PROMPT = re.compile(
    r"(\d{1,9}) (?:input tokens|in the messages|tokens from the input|`inputs` tokens)"
)


PROMPT_ALONE = re.compile(
    r"\b(?:prompt|input)\b(?:(?!max_).){0,40}(?:too (?:long|large)|longer than|exceed(?:s|ed)\b)|"
    r"input length should be|`inputs` must have less than",
    re.IGNORECASE,
)
"""A refusal of the prompt, whatever the answer's limit: Anthropic's, Gemini's, Mistral's, Ollama's
(which says by how much it is too long), Together's, Alibaba's, TGI's."""


_ANSWER = re.compile(r"max_(?:\w+_)?tokens|output tokens|completion", re.IGNORECASE)
"""A refusal of the answer's token limit; a smaller limit may be accepted."""


def most_allowed(refusal: str) -> int | None:
    """The most tokens that a refusal allows, for an answer or in total; None if unclear."""
    limits = [int(limit) for limit in _MOST.findall(refusal)]
    return min(limits, default=None)


def next_limit(refusal: str, refused: int) -> int | None:
    """The token limit to request after a server has refused a larger one.

    It is what the server's message leaves for the answer, else half of the refused limit; None if
    the prompt alone is too long.
    """
    if PROMPT_ALONE.search(refusal):
        return None
    most, prompt = most_allowed(refusal), _PROMPT.search(refusal)
    if most and prompt:
        left = most - int(prompt[1])
    elif most and most < refused:
        left = most
    elif most is None or _ANSWER.search(refusal):
        left = refused // 2
    else:
        left = 0
    left = min(left, refused - 1)
    return left if left >= LEAST else None
