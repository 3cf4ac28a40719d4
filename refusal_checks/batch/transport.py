"""Stands for the way to a server: results of batches answer, batch files take what has none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from refusal_checks.batch.files import RequestFile, custom_id
from refusal_checks.batch.results import Results
from refusal_checks.client import CHAT
from refusal_checks.engine import EngineSpec
from refusal_checks.errors import EndpointError

USED: ContextVar[list[str] | None] = ContextVar("USED", default=None)
"""Takes the ids of the results that are read while it holds a list."""


class DeferredError(EndpointError):
    """The answer is not there yet: it comes with a batch, or never does."""


class BatchTransport:
    """Takes requests to the results of batches, and what has none into a batch file.

    Attributes:
        names: the models, as the user named them.
        requests: the file for those without a result; None where they are only counted.
        spec: the engine that would be started for the models; None for a server that others run.
        waiting: requests without a result.
        unfit: results that are no answer to their request.
        no_tokens: whether tokens of labels were asked for, which no batch gives.
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
        self.waiting = self.unfit = 0
        self.no_tokens = False
        self._results = results

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """See ``Transport.post``.

        Raises:
            DeferredError: there is no result, or the path is none that batches have.
        """
        if path != CHAT:
            self.no_tokens = True
            raise DeferredError(f"no batch has {path}")
        id = custom_id(body)
        results = self._results()
        found, is_first = results.get(id), results.ask(id)
        if found is not None and _fits(found, body):
            used = USED.get()
            if used is not None:
                used.append(id)
            return found
        self.unfit += found is not None
        if is_first:
            self.waiting += 1
            if self.requests is not None:
                self.requests.add(id, body)
        raise DeferredError("nothing is stored, and no server is asked: this waits for a batch")


def _fits(found: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Whether a result has as many answers as were asked for, and the tokens where they were."""
    choices: Sequence[Mapping[str, Any]] = found["choices"]
    wants_tokens = "top_logprobs" in body
    return len(choices) == body.get("n", 1) and (not wants_tokens or all(map(_has_tokens, choices)))


def _has_tokens(choice: Mapping[str, Any]) -> bool:
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    tokens = content if isinstance(content, list) else []
    return bool(tokens and isinstance(tokens[0], dict) and tokens[0].get("top_logprobs"))
