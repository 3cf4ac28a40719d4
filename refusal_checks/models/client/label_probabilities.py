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
    """The server cannot give these labels' probabilities for any conversation."""


@dataclass(frozen=True)
class LabelProbabilities:
    """How probable each label is as the first token of an answer.

    Attributes:
        probabilities: probability by label, renormalised to sum to 1; uniform if the server showed
            none of the labels.
        outside: probability of everything else, in [0, 1]; if the server lists only its ``TOP``
            most probable tokens, of labels outside the list, too.
    """

    probabilities: Mapping[str, float]
    outside: float


def label_fields(ids: Mapping[str, int] | None) -> dict[str, Any]:
    """Request fields for label probabilities; with ``ids`` if the server takes token ids."""
    # Some servers apply sampling settings to the probabilities; these settings change nothing.
    fields: dict[str, Any] = {
        "n": 1,
        "temperature": 1.0,
        "top_p": 1.0,
        "max_tokens": 1,
        "logprobs": True,
        "top_logprobs": TOP,
    }
    if ids is not None:
        fields["top_k"] = 0
        fields["logprob_token_ids"] = list(ids.values())
        fields["return_tokens_as_token_ids"] = True
    return fields


def read_first_tokens(choice: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Read the tokens that an answer could begin with, each with its log-probability (at most 0).

    Raises LabelError if the server lists none.
    """
    tokens = (choice.get("logprobs") or {}).get("content") or []
    listed = tokens[0].get("top_logprobs") if tokens else None
    if not listed:
        raise LabelError(
            "the server returns no log-probabilities of the tokens it could choose"
        )
    first_tokens = []
    for token in listed:
        logprob = min(float(token["logprob"]), 0.0)
        if math.isnan(logprob):
            raise ValueError("a log-probability is not a number")
        first_tokens.append((str(token["token"]), logprob))
    return first_tokens


def read_labels(
    choice: Mapping[str, Any], labels: Sequence[str], ids: Mapping[str, int] | None
) -> LabelProbabilities:
    """Read label probabilities from a server's choice; ``ids`` are the token ids requested."""
    shown = read_first_tokens(choice)
    by_label = {}
    for label in labels:
        # A server that knows the tokens may still show their text.
        names = {space + label for space in _SPACES}
        if ids:
            names.add(f"token_id:{ids[label]}")
        by_label[label] = [value for token, value in shown if token in names]

    logprobs = [value for values in by_label.values() for value in values]
    logprobs = [value for value in logprobs if value > -math.inf]
    outside = min(1.0, max(0.0, 1.0 - math.fsum(map(math.exp, logprobs))))
    return LabelProbabilities(_normalise(by_label, logprobs), outside)


def _normalise(
    by_label: Mapping[str, Sequence[float]], logprobs: Sequence[float]
) -> dict[str, float]:
    """Normalise the labels' probabilities; uniform if no label was shown."""
    weights = dict.fromkeys(by_label, 1.0)
    if logprobs:
        # Relative to the largest, so that tiny probabilities keep their proportions.
        largest = max(logprobs)
        for label, values in by_label.items():
            weights[label] = math.fsum(math.exp(value - largest) for value in values)
    total = math.fsum(weights.values())
    return {label: weight / total for label, weight in weights.items()}
