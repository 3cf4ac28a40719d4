"""Send JSON requests to one server over HTTP."""

from __future__ import annotations

import asyncio
import json
import math
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, Self

from aiolimiter import AsyncLimiter
from pydantic_core import PydanticSerializationError, from_json, to_json

from refusal_checks.core.errors import EndpointError
from refusal_checks.core.redaction import strip_credentials
from refusal_checks.core.settings import RequestPace
from refusal_checks.models.client.key_redaction import KeyRedactor
from refusal_checks.models.client.proxies import find_proxy
from refusal_checks.models.client.server_errors import (
    ATTEMPTS_STALLED,
    TransientError,
    error_words,
    make_error,
)

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.connector import Connection


MOST = 16 * 2**20  # bytes of any reply
FRAME, TOKEN = 2**16, 2**10
"""Bytes of a reply apart from its tokens, and of one token with its log-probability."""

LARGE = 2**20  # bytes of a reply; few larger ones are read at a time
LARGE_AT_ONCE = 4


class Transport(Protocol):
    """Interface to a server or its replacement."""

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send one request, once, to a path below the base URL; return the answer's JSON value.

        Raises EndpointError if there is no answer, TransientError if another attempt may succeed.
        """


@dataclass(frozen=True)
class ConnectionSettings:
    """How to reach a server, and how long to wait for it.

    Attributes:
        key_variable: the environment variable that messages name for the key.
        timeout: seconds for one request, from the moment it may be sent.
        outage: seconds without any answer after which no more requests are sent.
    """

    api_key: str = ""
    timeout: float = 600.0
    pace: RequestPace = field(default_factory=RequestPace)
    outage: float = math.inf
    key_variable: str = ""


class HttpTransport:
    """HTTP to a server's base URL; an async context manager, with one event loop at a time."""

    _session: aiohttp.ClientSession
    _free: asyncio.Semaphore
    _large: asyncio.Semaphore
    _turn: AsyncLimiter | None

    def __init__(
        self, url: str, connection: ConnectionSettings = ConnectionSettings()
    ) -> None:
        self.url = url
        self._connection = connection
        # Sent with each request: aiohttp sends a session's own headers to proxies as well.
        self._headers = {"Content-Type": "application/json"}
        if connection.api_key:
            self._headers["Authorization"] = f"Bearer {connection.api_key}"
        self._in_errors = KeyRedactor(connection.api_key, are_in_answers=False)
        self._in_answers = KeyRedactor(connection.api_key, are_in_answers=True)
        self._first_refusal = self._last_refusal = math.inf

    async def __aenter__(self) -> Self:
        # These belong to one event loop, and a transport may see several.
        self._free = asyncio.Semaphore(self._connection.pace.at_once)
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)
        rate = self._connection.pace.per_minute
        self._turn = AsyncLimiter(1, 60 / rate) if rate else None
        self._session = session(self.url, self._connection.timeout)
        return self

    async def __aexit__(self, *fault: object) -> None:
        await self._session.close()

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send one request as soon as the pace allows it; see ``Transport.post``.

        During an outage nothing is sent: the server refused everything for ``outage`` seconds.
        """
        async with self._free:
            if self._turn:
                await self._turn.acquire()
            if self._last_refusal - self._first_refusal > self._connection.outage:
                raise EndpointError(
                    f"{self.url}: check the server, then run the same command again: it refused "
                    f"every request for {self._connection.outage:g} s (limits.outage_timeout)"
                )
            begun = monotonic()
            try:
                answer = await self.request("POST", path, body)
            except TransientError:
                now = monotonic()
                # After a pause, in which nothing was asked, an outage begins anew.
                if begun - self._last_refusal > self._connection.outage:
                    self._first_refusal = now
                self._first_refusal = min(self._first_refusal, now)
                self._last_refusal = now
                raise
            self._first_refusal = math.inf
            return answer

    async def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> Any:
        """Send one request at once, whatever the pace; see ``Transport.post``.

        Redirects are not followed, so that prompts reach only the server that the user named.
        """
        import aiohttp  # not before a request: it loads for a while

        most = most_bytes(body or {})
        data = None if body is None else encode_json(body)
        try:
            async with self._session.request(
                method,
                self.url + path,
                data=data,
                headers=self._headers,
                allow_redirects=False,
            ) as reply:
                read = partial(self._decode_reply, reply)
                return await _content(reply, most, self._large, read)
        except EndpointError as fault:
            # A header may hold a key, too, and JSON that is quoted in JSON.
            fault.args = (self._in_errors.redact(str(fault)),)
            raise
        except aiohttp.ClientSSLError as fault:
            plain = self.url.replace("https:", "http:", 1)
            raise EndpointError(
                f"{self.url}: write {plain} if the server has no TLS; if your own authority "
                "signed its certificate, set SSL_CERT_FILE to the authority's certificate (PEM): "
                f"{self._explain(fault)}"
            ) from fault
        except TimeoutError as fault:
            raise TransientError(
                f"{self.url}: Timeout: no answer within {self._connection.timeout:g} s",
                attempts=ATTEMPTS_STALLED,
            ) from fault
        except (aiohttp.ClientError, ValueError) as fault:
            raise TransientError(f"{self.url}: {self._explain(fault)}") from fault

    def _decode_reply(self, reply: aiohttp.ClientResponse, text: str) -> Any:
        keys = self._in_answers if reply.status == 200 else self._in_errors
        text = keys.redact(text)
        where = reply.headers.get("Location", "")
        if 300 <= reply.status < 400 and where:
            # An address without a scheme may hold a password, too.
            shown = f"http:{where}" if where.startswith("//") else where
            raise EndpointError(
                f"{self.url}: use the URL that this one redirects to, if you trust it: "
                f"{strip_credentials(shown)[:300]} (HTTP {reply.status})",
                reply.status,
            )
        if reply.status != 200:
            after = reply.headers.get("Retry-After", "")
            variable = self._connection.key_variable
            raise make_error(self.url, reply.status, text, after, variable)
        try:
            return decode_json(text)
        except (ValueError, RecursionError):
            problem = f"not valid JSON but {reply.content_type[:60]}: {error_words(text)[:200]}"
            if not text.strip():
                problem = "an empty reply"
            raise TransientError(f"{self.url}: {problem}", reply.status) from None

    def _explain(self, fault: Exception) -> str:
        cause = self._in_errors.redact(strip_credentials(str(fault)))[:500]
        return f"{type(fault).__name__}: {cause}"


def most_bytes(body: Mapping[str, Any]) -> int:
    """The most bytes of the reply to a request: by its tokens, where the request limits them."""
    limit = body.get("max_tokens") or body.get("max_completion_tokens")
    if not limit:
        return MOST
    return min(MOST, FRAME + int(body.get("n", 1)) * int(limit) * TOKEN)


def encode_json(body: Mapping[str, Any]) -> bytes:
    """Encode a request as JSON, four times as fast as the standard library."""
    try:
        return to_json(body)
    except PydanticSerializationError:
        # A lone surrogate, which can only be sent as an escape.
        return json.dumps(body).encode()


def decode_json(text: str) -> Any:
    """Parse a server's JSON, faster than the standard library."""
    try:
        return from_json(text)
    except ValueError:  # or a lone surrogate, or deep nesting
        return json.loads(text)


def session(url: str, timeout: float) -> aiohttp.ClientSession:
    """Open a session for one server, with a ``timeout`` in seconds; needs an event loop.

    Certificates are checked against the system's or SSL_CERT_FILE. HTTP_PROXY and HTTPS_PROXY apply
    unless NO_PROXY names the server, or the server is local.
    """
    import aiohttp  # not before a request: it loads for a while

    class Connector(aiohttp.TCPConnector):
        async def connect(self, *args: Any, **named: Any) -> Connection:
            """Reuse a kept connection only if no stray bytes have arrived on it.

            They would be read as the next answer.
            """
            while True:
                connection = await super().connect(*args, **named)
                protocol = connection.protocol
                if protocol is None or not protocol.should_close:
                    return connection
                connection.close()

    trusted = ssl.create_default_context() if url.startswith("https:") else True
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=timeout),
        # No limit here: waiting for a connection would count towards the time-out. Idle
        # connections are closed before the server closes them (uvicorn: after 5 s).
        connector=Connector(limit=0, keepalive_timeout=3.0, ssl=trusted),
        proxy=find_proxy(url),
        # A small compressed reply may be huge: none is asked for, and none is unpacked.
        headers={"Accept-Encoding": "identity"},
        auto_decompress=False,
    )


async def _content(
    response: aiohttp.ClientResponse,
    most: int,
    large: asyncio.Semaphore,
    read: Callable[[str], Any],
) -> Any:
    """Return what ``read`` makes of a reply's text, of at most so many bytes.

    A large reply waits for room among the ``large`` ones, which it takes until it is read. A server
    that sends as much as it may on each connection would otherwise fill the memory.
    """
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise EndpointError(
            f"{response.url}: have the server send plain replies: this one is encoded as "
            f"{encoding[:40]!r}, which was not requested"
        )
    body = bytearray()
    is_large = False
    try:
        piece = await response.content.readany()
        while piece:
            body += piece
            if len(body) > most:
                raise EndpointError(
                    f"{response.url}: the reply has more than {most / 2**10:.0f} KiB, more than "
                    "the tokens that were asked for can have"
                )
            if len(body) > LARGE and not is_large:
                await large.acquire()
                is_large = True
            piece = await response.content.readany()
        text = body.decode("utf-8", errors="replace")
        del body  # the text takes as much again
        return read(text)
    finally:
        if is_large:
            large.release()
