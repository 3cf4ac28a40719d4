"""Sends JSON requests to one server over HTTP."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from aiolimiter import AsyncLimiter
from pydantic_core import PydanticSerializationError, from_json, to_json

from refusal_checks.core.errors import EndpointError, ModelError
from refusal_checks.core.settings import Pace
from refusal_checks.core.text import without_credentials
from refusal_checks.models.client.http_errors import StalledError, TransientError, error_for
from refusal_checks.models.client.reply import ENCODINGS, LIMIT, Keys, Reply, allowance, ask

if TYPE_CHECKING:
    import aiohttp


class Transport(Protocol):
    """Interface to a server, or to a stand-in for one."""

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send one request, once, and parse the JSON of the answer.

        Args:
            path: below the server's base URL, for example ``/chat/completions``.

        Raises:
            EndpointError: there is no answer; a TransientError if another attempt may bring one.
        """


@dataclass(frozen=True)
class Access:
    """How requests reach a server.

    Attributes:
        api_key: sent as a bearer token unless empty.
        timeout: seconds for one request, from the moment when it may be sent.
        pace: how fast requests may be sent; the others wait.
        max_reply: most bytes of a reply, see ``allowance``.
    """

    api_key: str = ""
    timeout: float = 600.0
    pace: Pace = field(default_factory=Pace)
    max_reply: int = LIMIT * 2**20


class HttpTransport:
    """A server; use as an asynchronous context manager, with one event loop at a time.

    Args:
        url: base URL, ending in ``/v1``.
    """

    def __init__(self, url: str, access: Access = Access()) -> None:
        self.url = url
        self._access = access
        self._headers = {"Content-Type": "application/json", **authorization(access.api_key)}
        self._keys = Keys(access.api_key)
        self._session: aiohttp.ClientSession | None = None
        self._free = asyncio.Semaphore(access.pace.at_once)
        self._turn: AsyncLimiter | None = None

    async def __aenter__(self) -> Self:
        # These belong to one event loop, and a transport may see several.
        self._free = asyncio.Semaphore(self._access.pace.at_once)
        rate = self._access.pace.per_minute
        self._turn = AsyncLimiter(1, 60 / rate) if rate else None
        self._session = session(self.url, self._access.timeout)
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
            if self._turn:
                await self._turn.acquire()
            return await self._post(path, body)

    async def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        import aiohttp  # not before a request: it loads for a while

        assert self._session is not None, "the transport is a context manager"
        try:
            most = allowance(body, self._access.max_reply)
            sent = {"data": encoded(body), "headers": self._headers}
            reply = await ask(self._session, "POST", self.url + path, most, **sent)
            if reply.status != 200:
                where = self.url if reply.url == self.url + path else reply.url
                raise self._refusal(where, reply)
            return self._parsed(self._keys.hidden(reply.text, is_answer=True), reply.kind)
        except TimeoutError as fault:
            raise StalledError(self._explained(fault)) from fault
        except aiohttp.ClientSSLError as fault:
            raise EndpointError(self._explained(fault)) from fault
        except (aiohttp.ClientError, ValueError) as fault:
            raise TransientError(self._explained(fault)) from fault

    def _refusal(self, where: str, reply: Reply) -> EndpointError:
        text = self._keys.hidden(reply.text)
        fault = error_for(where, reply.status, text, reply.retry_after)
        fault.args = (self._keys.hidden(str(fault)),)  # where JSON was quoted in JSON
        return fault

    def _parsed(self, text: str, kind: str) -> Any:
        try:
            return decoded(text)
        except (ValueError, RecursionError):
            words = self._keys.hidden(f"not valid JSON but {kind[:60]}: {text[:200]}")
            raise TransientError(f"{self.url}: {words}") from None

    def _explained(self, fault: Exception) -> str:
        said = self._keys.hidden(without_credentials(str(fault)))[:500]
        return f"{self.url}: {type(fault).__name__}: {said}"


def encoded(body: Mapping[str, Any]) -> bytes:
    """A request as JSON, encoded in a quarter of the standard library's time."""
    try:
        return to_json(body)
    except PydanticSerializationError:  # a lone surrogate, which only an escape can spell
        return json.dumps(body).encode()


def decoded(text: str) -> Any:
    """The value of a server's JSON, read in less than the standard library's time.

    Raises:
        ValueError, RecursionError: it is not JSON.
    """
    try:
        return from_json(text)
    except ValueError:  # or a lone surrogate, or deep nesting
        return json.loads(text)


def session(url: str, timeout: float) -> aiohttp.ClientSession:
    """A session for one server's requests; create it within an event loop.

    Certificates are checked against those of the system or of SSL_CERT_FILE. HTTP_PROXY and
    HTTPS_PROXY are used, unless NO_PROXY names the server or the server is on this machine.

    Args:
        timeout: seconds for one request.
    """
    import aiohttp  # not before a request: it loads for a while

    trusted = ssl.create_default_context() if url.startswith("https:") else True
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=timeout),
        # No limit here: waiting for a connection would count towards the time-out. Idle
        # connections are closed before the server closes them (uvicorn: after 5 s).
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=3.0, ssl=trusted),
        proxy=proxy(url),
        headers={"Accept-Encoding": ENCODINGS},
        auto_decompress=False,  # see reply.ask
    )


def authorization(api_key: str) -> dict[str, str]:
    """The header with the API key.

    Pass it with each request: aiohttp sends a session's own headers to proxies as well.
    """
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}


def proxy(url: str) -> str | None:
    """The proxy for a server, with the credentials in the proxy's URL, if any.

    This replaces aiohttp's ``trust_env``, which looks for a .netrc file at each request, refuses an
    API key if it finds one, and sends requests to this machine's own servers through proxies.

    Raises:
        ModelError: the variable does not hold the URL of a proxy.
    """
    parts = urlsplit(url)
    named = getproxies().get(parts.scheme)
    host = parts.hostname or ""
    is_here = host in ("localhost", "::1") or host.startswith("127.")
    if not named or is_here or proxy_bypass(parts.netloc):
        return None
    named = named if "://" in named else f"http://{named}"
    if not _is_proxy(named):
        raise ModelError(
            f"{parts.scheme.upper()}_PROXY: write http://HOST:PORT, or http://USER:PASSWORD@HOST:"
            "PORT, its characters quoted (%40 for @): its value, which may hold a password and is "
            "not shown, is not the URL of a proxy"
        )
    return named


def _is_proxy(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
