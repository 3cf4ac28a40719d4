"""One server's JSON over HTTP: the way of every request for an answer or a verdict."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol, Self

import aiohttp

from refusal_checks.faults import StalledError, TransientError, error_for


class Transport(Protocol):
    """Takes requests to a server, or to what stands for one."""

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The parsed JSON that answers a request; one try.

        Args:
            path: below the server's base URL, ``/chat/completions`` for example.

        Raises:
            EndpointError: there is no answer; a TransientError where another try may bring one.
        """


class HttpTransport:
    """A server; use as an asynchronous context manager, with one event loop at a time.

    Args:
        url: base URL, ending in ``/v1``.
        api_key: sent as a bearer token where given.
        timeout: seconds for one request, from the moment when it may be sent.
        connections: most requests at one time; others wait.
    """

    def __init__(
        self, url: str, *, api_key: str | None = None, timeout: float = 600.0, connections: int
    ) -> None:
        self.url = url
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None
        self._free = asyncio.Semaphore(connections)

    async def __aenter__(self) -> Self:
        self._free = asyncio.Semaphore(self._connections)  # it belongs to one event loop
        self._session = aiohttp.ClientSession(
            headers=self._headers,
            timeout=self._timeout,
            # Requests wait above and not in here, where the time would count as the server's. Idle
            # connections are dropped before the server does (uvicorn: after 5 s).
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=3.0),
            trust_env=True,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """See ``Transport.post``."""
        async with self._free:
            return await self._post(path, body)

    async def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        assert self._session is not None, "the transport is a context manager"
        try:
            async with self._session.post(self.url + path, json=body) as response:
                text = await response.text("utf-8", errors="replace")
                if response.status != 200:
                    after = response.headers.get("Retry-After", "")
                    raise error_for(self.url, response.status, text, after)
                return json.loads(text)
        except TimeoutError as fault:
            raise StalledError(self._said(fault)) from fault
        except (aiohttp.ClientError, ValueError, RecursionError) as fault:
            raise TransientError(self._said(fault)) from fault

    def _said(self, fault: Exception) -> str:
        return f"{self.url}: {type(fault).__name__}: {fault}"
