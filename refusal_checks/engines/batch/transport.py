"""Takes the place of a server: batch results answer requests, a batch file takes the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from refusal_checks.core.errors import EndpointError
from refusal_checks.core.records import Completion, unusable
from refusal_checks.core.verdicts import Reason
from refusal_checks.engines.base import EngineSpec
from refusal_checks.engines.batch.inbox import Results
from refusal_checks.engines.batch.jsonl import RequestFile, custom_id
from refusal_checks.models.client.answers import Choice, read_choices, require_finished
from refusal_checks.models.client.client import CHAT
from refusal_checks.models.client.label_probabilities import read_labels
from refusal_checks.models.client.usage import MALFORMED, tokens

USED: ContextVar[list[str] | None] = ContextVar("USED", default=None)
"""Collects the ids of the results that are read, while it holds a list."""


class DeferredError(EndpointError):
    """The answer is not here yet; it may come with a batch."""


class BatchTransport:
    """Answers requests from batch results, and writes those without one into a batch file.

    Attributes:
        names: the models, as the user named them.
        requests: the file for those without a result; None if they are only counted.
        spec: the engine that would be started for the models; None for an attached server.
        waiting: requests without a result.
        context: of the models, where it is known.
        no_tokens: True if tokens of labels were asked for, which no batch gives.
    """

    def __init__(
        self,
        results: Callable[[], Results],
        requests: RequestFile | None,
        spec: EngineSpec | None,
    ) -> None:
        self.names: dict[str, None] = {}
        self.requests = requests
        self.spec = spec
        self.waiting = 0
        self.context: int | None = None
        self._unfit: set[str] = set()
        self.no_tokens = False
        self._results = results

    @property
    def unfit(self) -> int:
        """Results that do not answer their request."""
        return len(self._unfit)

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """See ``Transport.post``.

        Raises:
            DeferredError: there is no result, or batches do not have the path.
        """
        if path != CHAT:
            self.no_tokens = True
            raise DeferredError(f"no batch has {path}")
        request_id = custom_id(body)
        results = self._results()
        found, is_first = results.get(request_id), results.ask(request_id)
        if found is not None and _fits(found, body, self.context):
            used = USED.get()
            if used is not None:
                used.append(request_id)
            return found
        if found is not None:
            self._unfit.add(request_id)
        if is_first:
            self.waiting += 1
            if self.requests is not None:
                self.requests.add(request_id, body)
        raise DeferredError("not stored, and no server is asked: the answer waits for a batch")


def _fits(found: Mapping[str, Any], body: Mapping[str, Any], context: int | None) -> bool:
    """True if a result can be read and has all that its request asked for."""
    try:
        require_finished(found)
        choices = read_choices(found, body.get("n", 1))
        if "top_logprobs" in body:
            read_labels(found["choices"][0], (), None)
    except (EndpointError, *MALFORMED):
        return False
    is_answer = USED.get() is None and "top_logprobs" not in body
    most, prompt = body.get("max_tokens", 0), tokens(found)[0]
    return not is_answer or not any(
        _is_broken_off(choice, most) and not choice.fills(prompt, most, most, context)
        for choice in choices
    )


def _is_broken_off(choice: Choice, most: int) -> bool:
    """True if an answer was cut off, so that it is not stored."""
    answer = Completion(choice.text, choice.finish_reason, choice.tokens)
    fault = unusable(answer, most)
    return fault is not None and fault.reason is Reason.UNFINISHED_ANSWER
