"""The way to one engine, shared by all clients of its model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from refusal_checks.core.errors import EndpointError, EngineStartError
from refusal_checks.core.finish_reasons import FINISHED
from refusal_checks.core.settings import Limits, Pace
from refusal_checks.engines.process import EngineProcess
from refusal_checks.engines.servers import Say
from refusal_checks.models.client.answers import require_finished
from refusal_checks.models.client.capabilities import ALL, Capabilities, Support
from refusal_checks.models.client.client import CHAT, Client, RequestParams
from refusal_checks.models.client.http_errors import TransientError
from refusal_checks.models.client.probing import probe
from refusal_checks.models.client.transport import Access, HttpTransport
from refusal_checks.models.client.usage import MALFORMED
from refusal_checks.models.context import declared
from refusal_checks.models.spec import Extras, Served

SETTLE = 5.0
"""Seconds in which an engine ends after a request has failed, if that is why it failed: its guard
takes ``guard.WATCH + guard.VITAL_GRACE`` to notice."""


class EngineTransport(HttpTransport):
    """Sends requests in the engine's own dialect, as many at one time as it takes."""

    def __init__(self, process: EngineProcess, limits: Limits) -> None:
        pace = Pace(at_once=process.engine.at_once)
        most = limits.max_reply_mib * 2**20
        access = Access(process.api_key, limits.request_timeout, pace, most)
        super().__init__(process.url, access)
        self._process = process
        self._limits = limits
        self._clients: list[Client] = []
        self._model: Served | None = None
        self._is_probed = False

    def connect(self, model: Served) -> Client:
        """A client for the engine's model."""
        self._model = self._model or model
        self._clients.append(self._client(model))
        return self._clients[-1]

    def _client(self, model: Served) -> Client:
        client = Client(
            self.url,
            model.served_name,
            extras=Extras((), model.template_kwargs, model.reasoning_end),
            capabilities=self._process.engine.capabilities,
            transport=self,
        )
        client.context = declared(model)
        return client

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """See ``Transport.post``; what an engine says that is about to end is no answer.

        Raises:
            EngineDiedError: it has ended; nothing is sent to whoever listens in its place.
        """
        self._process.require_running()
        try:
            answer = await super().post(path, self._process.engine.translate(body))
            if path == CHAT:
                _require_whole(answer)
        except TransientError:
            await self._settle()
            raise
        return answer

    async def _settle(self) -> None:
        """Raise EngineDiedError if the engine ends soon after a fault."""
        deadline = time.monotonic() + SETTLE
        while time.monotonic() < deadline:
            self._process.require_running()
            await asyncio.sleep(0.1)

    def learn(self, say: Say) -> None:
        """Probe an engine that lacks something, once, and do without what this version lacks."""
        engine = self._process.engine
        if engine.capabilities == ALL or self._is_probed or self._model is None:
            return
        try:
            probed = asyncio.run(self._probe(self._model))
        except EndpointError as fault:
            problem = f"gives no chat completion: {fault}"
            raise EngineStartError(self._process.report(problem)) from fault
        self._is_probed = True
        declared = engine.capabilities.as_words()
        expected = [name for name, support in declared.items() if support == Support.YES]
        both = replace(engine.capabilities, **{name: getattr(probed, name) for name in expected})
        for client in self._clients:
            client.capabilities = both
        for words in both.missing(*expected).values():
            say(f"{engine.title} for {self._process.spec.model}: {words}")

    async def _probe(self, model: Served) -> Capabilities:
        # Another thread's event loop may have opened this one already.
        own = EngineTransport(self._process, self._limits)
        async with own, own._client(model) as client:
            return await probe(client, RequestParams())


def _require_whole(answer: Any) -> None:
    """Raise TransientError if the engine broke an answer off; what is malformed others refuse."""
    with suppress(*MALFORMED):
        require_finished(answer, FINISHED)
