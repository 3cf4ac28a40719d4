"""Send requests to an engine that may end at any moment."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from refusal_checks.core.judgements import FINISHED
from refusal_checks.core.settings import CONNECTIONS, RequestPace
from refusal_checks.engines.process import EngineProcess
from refusal_checks.models.client.chat_replies import require_finished
from refusal_checks.models.client.client import CHAT
from refusal_checks.models.client.server_errors import MALFORMED, TransientError
from refusal_checks.models.client.transport import ConnectionSettings, HttpTransport

SETTLE = 5.0
"""If a request failed because its engine is ending, the engine ends within so many seconds. Its
supervisor needs ``WATCH + VITAL_GRACE`` of them to notice."""


class EngineTransport(HttpTransport):
    """HTTP to an engine, with a ``timeout`` in seconds."""

    def __init__(self, process: EngineProcess, timeout: float) -> None:
        # Further requests wait on our side, where no time-out runs.
        pace = RequestPace(at_once=2 * CONNECTIONS)
        super().__init__(
            process.url, ConnectionSettings(process.api_key, timeout, pace)
        )
        self._process = process

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send a request; replies of a dying engine do not count.

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
