"""Send requests to an engine that may end at any moment."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from refusal_checks.core.errors import EndpointError, EngineStartError
from refusal_checks.core.settings import Limits, RequestPace
from refusal_checks.core.verdicts import FINISHED
from refusal_checks.engines.process import EngineProcess
from refusal_checks.engines.servers import Say
from refusal_checks.models.client.answers import require_finished
from refusal_checks.models.client.capabilities import ALL, Capabilities, Support
from refusal_checks.models.client.client import CHAT, Client, RequestParams
from refusal_checks.models.client.probing import probe
from refusal_checks.models.client.server_errors import MALFORMED, TransientError
from refusal_checks.models.client.transport import Access, HttpTransport
from refusal_checks.models.model_files import declared
from refusal_checks.models.names import Served

SETTLE = 5.0
"""Seconds in which an engine ends after a request has failed, if that is why it failed: its guard
takes ``guard.WATCH + guard.VITAL_GRACE`` to notice."""


class EngineTransport(HttpTransport):
    """Sends requests in the engine's own dialect, as many at once as it takes."""

    def __init__(self, process: EngineProcess, limits: Limits) -> None:
        pace = RequestPace(at_once=process.engine.at_once)
        most = limits.max_reply_mib * 2**20
        access = Access(process.api_key, limits.request_timeout, pace, most)
        super().__init__(process.url, access)
        self._process = process
        self._limits = limits
        self._clients: list[Client] = []
        self._model: Served | None = None
        self._is_probed = False

    def connect(self, model: Served) -> Client:
        self._model = self._model or model
        client = Client(
            self.url,
            model.served_name,
            extras=model,
            capabilities=self._process.engine.capabilities,
            transport=self,
        )
        client.context = declared(model)
        self._clients.append(client)
        return client

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send a request; a reply of a dying engine does not count.

        Nothing is sent if another process listens on the port of an engine that has ended.
        """
        self._process.require_running()
        self._process.require_awake()
        try:
            answer = await super().post(path, self._process.engine.translate(body))
            if path == CHAT:
                with suppress(*MALFORMED):  # which its reader refuses
                    require_finished(answer, FINISHED)
        except TransientError:
            deadline = time.monotonic() + SETTLE
            while time.monotonic() < deadline:
                self._process.require_running()
                await asyncio.sleep(0.1)
            raise
        return answer

    def learn(self, say: Say) -> None:
        """Probe an engine once if its kind lacks a capability, and leave out what is missing."""
        engine = self._process.engine
        if engine.capabilities == ALL or self._is_probed or self._model is None:
            return
        model = self._model

        async def probe_it() -> Capabilities:
            # Another thread's event loop may have opened this transport already.
            async with EngineTransport(self._process, self._limits) as own:
                return await probe(own.connect(model), RequestParams())

        try:
            probed = asyncio.run(probe_it())
        except EndpointError as fault:
            problem = f"gives no chat completion: {fault}"
            raise EngineStartError(self._process.report(problem)) from fault
        self._is_probed = True
        declared = engine.capabilities.as_words()
        expected = [
            name for name, support in declared.items() if support == Support.YES
        ]
        both = replace(
            engine.capabilities, **{name: getattr(probed, name) for name in expected}
        )
        for client in self._clients:
            client.capabilities = both
        for words in both.missing(*expected).values():
            say(f"{engine.title} for {self._process.spec.model}: {words}")
