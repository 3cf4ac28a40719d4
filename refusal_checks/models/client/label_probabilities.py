"""How probable each label is as the first token of an answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refusal_checks.core.errors import EndpointError

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
