"""Probabilities of labels as an answer's first token: how to ask for them and read them.

If a judge answers with one of a few labels, their probabilities say more than the label itself.
They are read from the log-probabilities of one generated token, whichever token is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refusal_checks.core.errors import EndpointError

TOP = 20
"""Most probable tokens to ask for, the most that servers allow, if labels cannot be named."""


_SPACES = ("", " ", "\N{LOWER ONE EIGHTH BLOCK}", "\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}")
"""What may precede a label in its token: nothing, or the space that begins an answer, as it is or
as tokenizers write it."""


class LabelError(EndpointError):
    """The server cannot give these labels' probabilities, whatever the conversation."""


@dataclass(frozen=True)
class LabelProbabilities:
    """How probable each label is as the first token of an answer.

    Attributes:
        probabilities: by label, renormalised so that they sum to 1; uniform if the server showed
            none of the labels.
        outside: probability of everything else, in [0, 1].
        unseen: how much of ``outside`` may belong to the labels, in [0, outside]. It is 0 if the
            server was asked for the labels. If it only gives its ``TOP`` most probable tokens, a
            label that is not among them counts as 0; it can be as probable as the last of them.
    """

    probabilities: Mapping[str, float]
    outside: float
    unseen: float = 0.0


def label_fields(ids: Mapping[str, int] | None) -> dict[str, Any]:
    """The fields of a request for labels' probabilities.

    Args:
        ids: each label's token, for a server that accepts them; else None.
    """
    # Some servers apply sampling settings to the probabilities; these settings change nothing.
    fields: dict[str, Any] = {"n": 1, "temperature": 1.0, "top_p": 1.0, "max_tokens": 1}
    fields |= {"logprobs": True, "top_logprobs": TOP}
    if ids is not None:
        tokens = {"logprob_token_ids": list(ids.values()), "return_tokens_as_token_ids": True}
        fields |= {"top_k": 0, **tokens}
    return fields


def read_labels(
    choice: Mapping[str, Any], labels: Sequence[str], ids: Mapping[str, int] | None
) -> LabelProbabilities:
    """Read the labels' probabilities from a server's choice.

    Raises:
        LabelError: it has no log-probabilities.
        LookupError, TypeError, ValueError, AttributeError: it is malformed.
    """
    tokens = (choice.get("logprobs") or {}).get("content") or []
    listed = (tokens[0].get("top_logprobs") if tokens else None) or []
    if not listed:
        raise LabelError("the server returns no log-probabilities of the tokens it could choose")
    shown = [(str(token["token"]), _logprob(token["logprob"])) for token in listed]
    # A server that knows the tokens may still show their text.
    names = {
        label: {mark + label for mark in _SPACES} | ({f"token_id:{ids[label]}"} if ids else set())
        for label in labels
    }
    by_label = {
        label: [value for token, value in shown if token in names[label]] for label in labels
    }
    return _renormalised(by_label, [value for _, value in shown])


def _logprob(value: Any) -> float:
    number = min(float(value), 0.0)
    if math.isnan(number):
        raise ValueError("a log-probability is not a number")
    return number


def _renormalised(
    by_label: Mapping[str, Sequence[float]], listed: Sequence[float]
) -> LabelProbabilities:
    seen = [value for values in by_label.values() for value in values if value > -math.inf]
    if not seen:
        probabilities = {label: 1 / len(by_label) for label in by_label}
    else:
        # Relative to the largest, so that tiny probabilities keep their proportions.
        weights = {
            label: math.fsum(math.exp(value - max(seen)) for value in values)
            for label, values in by_label.items()
        }
        total = math.fsum(weights.values())
        probabilities = {label: weight / total for label, weight in weights.items()}
    outside = min(1.0, max(0.0, 1.0 - math.fsum(map(math.exp, seen))))
    missing = sum(not values for values in by_label.values())
    rest = max(0.0, 1.0 - math.fsum(map(math.exp, listed)))
    unseen = min(outside, rest, missing * math.exp(min(listed)))
    return LabelProbabilities(probabilities, outside, unseen)
