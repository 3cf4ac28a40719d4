"""What a server can do, and what a missing capability means for a run."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from dataclasses import field as dataclass_field
from enum import StrEnum
from typing import Any


class Support(StrEnum):
    """What a server does with a request field."""

    YES = "yes"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of a server (see ``CONSEQUENCES``); by default it has all, like vLLM.

    Whether a server ignores top_k cannot be seen. ``token_ids`` means that it lists the tokens of
    an answer. A server that refuses ``max_tokens`` takes ``max_completion_tokens``. ``refused``
    lists further sampling settings, such as temperature, that the server refuses with the run's
    value.
    """

    n: Support = Support.YES
    logprobs: Support = Support.YES
    structured_outputs: Support = Support.YES
    seed: Support = Support.YES
    top_k: Support = Support.YES
    token_ids: Support = Support.YES
    max_tokens: Support = Support.YES
    refused: frozenset[str] = dataclass_field(default=frozenset(), kw_only=True)

    @property
    def left_out(self) -> frozenset[str]:
        """Request fields that are not sent."""
        left_out = set(self.refused)
        if self.n is not Support.YES:
            left_out.add("n")
        if self.logprobs is not Support.YES:
            left_out.add("logprobs")
        if self.structured_outputs is not Support.YES:
            left_out.add("response_format")
        if self.token_ids is not Support.YES:
            left_out.add("return_token_ids")
        # A seed that does not reproduce an answer is still sent: it makes several requests for the
        # same prompt different, so that no cache answers them alike.
        if self.seed is Support.REFUSED:
            left_out.add("seed")
        if self.top_k is Support.REFUSED:
            left_out.add("top_k")
        return frozenset(left_out)

    def adapted(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The request fields that this server takes, under its own names."""
        left_out = self.left_out
        fields = {
            name: value for name, value in request.items() if name not in left_out
        }
        if self.max_tokens is Support.REFUSED and "max_tokens" in fields:
            fields["max_completion_tokens"] = fields.pop("max_tokens")
        return fields

    def applied(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Sampling settings for store keys; a refused one is marked as the server's own choice."""
        applied = dict(settings)
        for name in self.refused & applied.keys():
            applied[name] = OWN
        return applied

    def missing(self, *names: str) -> Mapping[str, str]:
        """The consequence of each of these capabilities that is missing."""
        return {
            name: CONSEQUENCES[name]
            for name in names
            if getattr(self, name) != Support.YES
        }

    def as_words(self) -> dict[str, str]:
        """The capabilities that figures depend on, for manifests; common ones only if missing."""
        words = {field.name: str(getattr(self, field.name)) for field in fields(self)}
        del words["token_ids"], words["refused"]
        if words["max_tokens"] == Support.YES:
            del words["max_tokens"]
        return words | dict.fromkeys(sorted(self.refused), LEFT_OUT)


ALL = Capabilities()

OWN = "the server's own"
"""Replaces the value of a sampling setting that is not sent."""

LEFT_OUT = "left out"
"""Said of such a setting in manifests, where others have a ``Support``."""

ANSWERS_AS, LISTED = "answers_as", "listed"
"""Manifest keys: the other model name in a server's answers, and "no" if it is not listed."""

CONSEQUENCES: Mapping[str, str] = {
    "n": "one answer per request, so K answers to a prompt take K requests, with consecutive seeds",
    "logprobs": "no log-probabilities, so all answers to a prompt weigh the same in its refusal "
    "confidence",
    "structured_outputs": "no structured outputs, so the strict parser reads verdicts from plain "
    "answers",
    "seed": "seeds do not reproduce answers, so another run may draw different ones",
    "top_k": "top_k is refused and not sent, so the server's own setting applies",
}
