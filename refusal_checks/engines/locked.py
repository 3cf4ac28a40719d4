"""Middleware for a server started here: its API key guards every path.

vLLM's own check of the key guards ``/v1`` and a few others, and leaves ``/invocations``, which
generates, ``/tokenize``, ``/metrics`` and more open to every user of the machine.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

OPEN = "/health"
"""The only path without a key: it says that the server lives, and nothing else."""


class Locked:
    """An ASGI application that refuses requests without the key in VLLM_API_KEY."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._wanted = f"Bearer {os.environ['VLLM_API_KEY']}".encode()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] not in ("http", "websocket") or self._may(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b'{"error": "Unauthorized"}'})

    def _may(self, scope: Message) -> bool:
        given = dict(scope["headers"]).get(b"authorization", b"")
        return scope["path"] == OPEN or hmac.compare_digest(given, self._wanted)
