"""Send JSON requests to one server over HTTP."""

from __future__ import annotations

import asyncio
import json
import math
import ssl
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import urljoin, urlsplit
from weakref import WeakKeyDictionary

from aiolimiter import AsyncLimiter
from pydantic_core import PydanticSerializationError, from_json, to_json

from refusal_checks.core.errors import EndpointError
from refusal_checks.core.redaction import without_credentials
from refusal_checks.core.settings import RequestPace
from refusal_checks.models.client.key_redaction import Keys
from refusal_checks.models.client.proxies import proxy
from refusal_checks.models.client.server_errors import (
    ATTEMPTS_STALLED,
    TransientError,
    error_for,
)

if TYPE_CHECKING:
    import aiohttp


LIMIT = 16 * 2**20  # most bytes of a reply unless told otherwise
SMALL = 2**20  # bytes that any reply may take; of larger ones, few are read at a time
LARGE_AT_ONCE = 4
TOKEN = 1024  # bytes of a reply that one token may take, with its log-probability
_NOT_TLS = (
    "WRONG_VERSION_NUMBER",
    "RECORD_LAYER_FAILURE",
    "HTTP_REQUEST",
    "UNKNOWN_PROTOCOL",
)
"""OpenSSL's names, by version, for an answer that is not TLS."""
_HOPS = 5  # most redirects that are followed

_large: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
    WeakKeyDictionary()
)
"""Room for large replies of all servers together, by event loop."""


class Transport(Protocol):
    """Interface to a server, or to a stand-in for one."""

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send one request, once, to a path below the base URL; return the answer's JSON value.

        Raises EndpointError if there is no answer, TransientError if another attempt may succeed.
        """


@dataclass(frozen=True)
class Access:
    """How to reach a server, and how long to wait for it.

    Attributes:
        timeout: seconds for one request, from the moment it may be sent.
        max_reply: most bytes of a reply, unless many tokens are requested.
        outage: seconds without any answer after which no more requests are sent.
    """

    api_key: str = ""
    timeout: float = 600.0
    pace: RequestPace = field(default_factory=RequestPace)
    max_reply: int = LIMIT
    outage: float = math.inf


class HttpTransport:
    """HTTP to a server's base URL; an async context manager, with one event loop at a time."""

    def __init__(self, url: str, access: Access = Access()) -> None:
        self.url = url
        self._access = access
        # Sent with each request: aiohttp sends a session's own headers to proxies as well.
        self._headers = {"Content-Type": "application/json"}
        if access.api_key:
            self._headers["Authorization"] = f"Bearer {access.api_key}"
        self._keys = Keys(access.api_key)
        self._session: aiohttp.ClientSession | None = None
        self._free = asyncio.Semaphore(access.pace.at_once)
        self._turn: AsyncLimiter | None = None
        # After a pause longer than the limit an outage begins anew: nothing was asked meanwhile.
        self._first_refusal = math.inf
        self._last_refusal = math.inf
        self._refused_for = 0.0

    async def __aenter__(self) -> Self:
        # These belong to one event loop, and a transport may see several.
        self._free = asyncio.Semaphore(self._access.pace.at_once)
        rate = self._access.pace.per_minute
        self._turn = AsyncLimiter(1, 60 / rate) if rate else None
        self._session = session(self.url, self._access.timeout)
        return self

    async def __aexit__(self, *fault: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        async with self._free:
            if self._turn:
                await self._turn.acquire()
            if self._refused_for > self._access.outage:
                raise EndpointError(
                    f"{self.url}: look at the server, then run the same command again: for "
                    f"{self._access.outage:g} s (limits.outage_timeout) it refused every request"
                )
            begun = monotonic()
            try:
                answer = await self.request("POST", path, body)
            except TransientError:
                now = monotonic()
                if begun - self._last_refusal > self._access.outage:
                    self._first_refusal = now
                self._last_refusal = now
                self._first_refusal = min(self._first_refusal, now)
                self._refused_for = now - self._first_refusal
                raise
            self._first_refusal = math.inf
            self._refused_for = 0.0
            return answer

    async def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> Any:
        """Send one request at once, whatever the pace; see ``Transport.post``.

        Redirects are followed only on the same server and with the same method: prompts go to
        nobody else, and never leave TLS for plain text.
        """
        import aiohttp  # not before a request: it loads for a while

        assert self._session is not None, "the transport is a context manager"
        most = max(self._access.max_reply, _tokens_listed(body or {}) * TOKEN)
        data = None if body is None else encoded(body)
        first_url = self.url + path
        url = first_url
        try:
            for _ in range(_HOPS):
                async with self._session.request(
                    method,
                    url,
                    data=data,
                    headers=self._headers,
                    allow_redirects=False,
                ) as reply:
                    where = reply.headers.get("Location", "")
                    if reply.status in (301, 302, 303, 307, 308) and where:
                        url = _followed(url, where, method, reply.status)
                        continue
                    # Messages name the server, or where it redirected to.
                    answered_by = self.url if url == first_url else url
                    read = partial(self._read, reply, answered_by)
                    return await _content(reply, most, read)
            raise EndpointError(
                f"{url}: name another URL: this one redirected more than {_HOPS} times"
            )
        except EndpointError as fault:
            # A header may hold a key, too, and JSON that is quoted in JSON.
            fault.args = (self._keys.hidden(str(fault)),)
            raise
        except aiohttp.ClientSSLError as fault:
            if getattr(fault.__cause__, "reason", "") in _NOT_TLS:
                plain = self.url.replace("https:", "http:", 1)
                raise EndpointError(
                    f"{self.url}: write {plain}: the server speaks HTTP there, without TLS"
                ) from fault
            raise EndpointError(
                f"{self._explained(fault)}; if an authority of your own signed the server's "
                "certificate, set SSL_CERT_FILE to that authority's certificate (PEM)"
            ) from fault
        except TimeoutError as fault:
            raise TransientError(
                self._explained(fault), attempts=ATTEMPTS_STALLED
            ) from fault
        except (aiohttp.ClientError, ValueError) as fault:
            raise TransientError(self._explained(fault)) from fault

    def _read(self, reply: aiohttp.ClientResponse, url: str, text: str) -> Any:
        hidden = self._keys.hidden
        if reply.status != 200:
            after = reply.headers.get("Retry-After", "")
            raise error_for(url, reply.status, hidden(text), after)
        text = hidden(text, is_answer=True)
        try:
            return decoded(text)
        except (ValueError, RecursionError):
            problem = f"not valid JSON but {reply.content_type[:60]}: {text[:200]}"
            raise TransientError(f"{self.url}: {problem}", reply.status) from None

    def _explained(self, fault: Exception) -> str:
        cause = self._keys.hidden(without_credentials(str(fault)))[:500]
        return f"{self.url}: {type(fault).__name__}: {cause}"


def _tokens_listed(body: Mapping[str, Any]) -> int:
    """The most tokens that a reply may list."""
    limit = body.get("max_tokens") or body.get("max_completion_tokens") or 0
    return int(body.get("n", 1)) * int(limit)


def encoded(body: Mapping[str, Any]) -> bytes:
    """Encode a request as JSON, four times as fast as the standard library does."""
    try:
        return to_json(body)
    except PydanticSerializationError:
        # A lone surrogate, which can only be sent as an escape.
        return json.dumps(body).encode()


def decoded(text: str) -> Any:
    """Parse a server's JSON, faster than the standard library does."""
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

    trusted = ssl.create_default_context() if url.startswith("https:") else True
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=timeout),
        # No limit here: waiting for a connection would count towards the time-out. Idle
        # connections are closed before the server closes them (uvicorn: after 5 s).
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=3.0, ssl=trusted),
        proxy=proxy(url),
        headers={"Accept-Encoding": "gzip, deflate"},
        auto_decompress=False,  # see _unpacker
    )


def _followed(url: str, where: str, method: str, status: int) -> str:
    def origin(url: str) -> tuple[str, str | None, int | None]:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
        return parts.scheme, parts.hostname, port

    try:
        target = urljoin(url, where)
        stays = origin(target) == origin(url)
    except ValueError:
        target, stays = where, False
    if stays and (method == "GET" or status in (307, 308)):
        return target
    if target.startswith(
        "//"
    ):  # malformed, and an address without a scheme is a URL too
        target = f"{urlsplit(url).scheme}:{target}"
    raise EndpointError(
        f"{url}: redirects to {without_credentials(target)[:300]} (HTTP {status}); nothing was "
        "sent there: if that is the right server, name its URL",
        status,
    )


async def _content(
    response: aiohttp.ClientResponse, most: int, read: Callable[[str], Any]
) -> Any:
    """Return what ``read`` makes of a reply's text, of at most so many bytes.

    A large reply waits for room, which it takes until it is read. Servers that send as much as they
    may on each connection would otherwise fill the memory.
    """
    unpack = _unpacker(response)
    body = bytearray()
    received = 0
    room: asyncio.Semaphore | None = None
    try:
        while chunk := await response.content.readany():
            received += len(chunk)
            for piece in unpack(chunk):
                body += piece
                # What follows the end of compressed data adds nothing to the body.
                if max(len(body), received) > most:
                    raise EndpointError(
                        f"{response.url}: the reply has more than {most / 2**20:g} MiB; raise "
                        "limits.max_reply_mib if it should"
                    )
                if len(body) > SMALL and not room:
                    room = await _take_room()
        text = body.decode("utf-8", errors="replace")
        del body  # the text takes as much again
        return read(text)
    finally:
        if room:
            room.release()


async def _take_room() -> asyncio.Semaphore:
    """Wait for room for one large reply; the caller releases it."""
    loop = asyncio.get_running_loop()
    room = _large.setdefault(loop, asyncio.Semaphore(LARGE_AT_ONCE))
    await room.acquire()
    return room


def _unpacker(
    response: aiohttp.ClientResponse,
) -> Callable[[bytes], Iterable[bytes]]:
    """The function that decompresses a part of a reply, in pieces of at most ``SMALL`` bytes."""
    import aiohttp

    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding in ("", "identity"):
        return lambda part: (part,)
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise EndpointError(
            f"{response.url}: the reply is encoded by {encoding[:40]!r}"
        )
    decompressor = zlib.decompressobj(zlib.MAX_WBITS | 32)

    def pieces(part: bytes) -> Iterator[bytes]:
        piece = b""
        # After a full piece more may come, though all of the part is consumed.
        while part or len(piece) == SMALL:
            try:
                piece = decompressor.decompress(part, SMALL)
            except zlib.error as fault:
                why = f"not {encoding}: {fault}"
                raise aiohttp.ClientPayloadError(why) from None
            yield piece
            part = decompressor.unconsumed_tail

    return pieces
