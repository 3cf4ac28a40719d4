"""Send requests to an engine that may end at any moment."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from refusal_checks.core.settings import Limits, RequestPace
from refusal_checks.core.verdicts import FINISHED
from refusal_checks.engines.process import EngineProcess
from refusal_checks.engines.vllm import AT_ONCE
from refusal_checks.models.client.answers import require_finished
from refusal_checks.models.client.client import CHAT, Client
from refusal_checks.models.client.server_errors import MALFORMED, TransientError
from refusal_checks.models.client.transport import Access, HttpTransport
from refusal_checks.models.model_files import declared
from refusal_checks.models.names import Served

SETTLE = 5.0
"""Seconds in which an engine ends after a request has failed, if that is why it failed: its guard
takes ``guard.WATCH + guard.VITAL_GRACE`` to notice."""


class EngineTransport(HttpTransport):
    """Sends requests, as many at once as the engine takes."""

    def __init__(self, process: EngineProcess, limits: Limits) -> None:
        pace = RequestPace(at_once=AT_ONCE)
        access = Access(process.api_key, limits.request_timeout, pace)
        super().__init__(process.url, access)
        self._process = process

    def connect(self, model: Served) -> Client:
        client = Client(
            self.url,
            model.served_name,
            extras=model,
            transport=self,
        )
        client.context = declared(model)
        return client

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send a request; a reply of a dying engine does not count.

        Nothing is sent if another process listens on the port of an engine that has ended.
        """
        self._process.require_running()
        try:
            answer = await super().post(path, body)
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
