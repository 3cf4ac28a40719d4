"""What a server can do of what is asked of it, and what its lack means for a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum


class Support(StrEnum):
    """How a server takes a field of a request."""

    YES = "yes"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """A server's, those of vLLM unless a probe found otherwise.

    Attributes:
        n: several answers to one request.
        logprobs: log-probabilities of an answer's tokens.
        structured_outputs: a JSON schema that an answer follows.
        seed: a seed that brings an answer back.
        top_k: sampling from the most probable tokens; whether it is heeded cannot be seen.
    """

    n: Support = Support.YES
    logprobs: Support = Support.YES
    structured_outputs: Support = Support.YES
    seed: Support = Support.YES
    top_k: Support = Support.YES

    @property
    def left_out(self) -> frozenset[str]:
        """Fields of a request that are not sent.

        A seed that is ignored, or does not bring an answer back, is sent all the same: it tells
        requests for several answers apart, so that no cache on the way takes them for one.
        """
        useless = {
            "n": self.n is not Support.YES,
            "logprobs": self.logprobs is not Support.YES,
            "response_format": self.structured_outputs is not Support.YES,
            "seed": self.seed is Support.REFUSED,
            "top_k": self.top_k is Support.REFUSED,
        }
        return frozenset(name for name, is_useless in useless.items() if is_useless)

    def missing(self, *names: str) -> Mapping[str, str]:
        """What those of these that are not there mean for a run, by name."""
        return {name: CONSEQUENCES[name] for name in names if getattr(self, name) != Support.YES}

    def as_words(self) -> dict[str, str]:
        """For manifests."""
        return {field.name: str(getattr(self, field.name)) for field in fields(self)}


ALL = Capabilities()

CONSEQUENCES: Mapping[str, str] = {
    "n": "one answer a request, so a prompt's K answers are K requests, with seeds that count up",
    "logprobs": "no log-probabilities, so a prompt's answers weigh the same in its refusal "
    "confidence",
    "structured_outputs": "no structured outputs, so verdicts are asked for without, and read by "
    "the strict parser",
    "seed": "seeds do not bring answers back, so another run may draw others",
    "top_k": "top_k is refused and left out, so the server's own setting holds",
}
