"""One request and a server's reply: from that server, within bounds, without the run's own keys."""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urljoin, urlsplit

from refusal_checks.core.errors import EndpointError
from refusal_checks.core.text import without_credentials

if TYPE_CHECKING:
    import aiohttp

LIMIT = 16
"""Most MiB of a reply unless told otherwise."""

TOKEN = 1024
"""Bytes of a reply that one token may take, with its log-probability."""

ENCODINGS = "gzip, deflate"
"""What replies may be compressed by."""

_REDIRECTS = (301, 302, 303, 307, 308)

_HOPS = 5
"""Most redirects that are followed."""

_HIDDEN = "[API key]"


@dataclass(frozen=True)
class Reply:
    """A server's reply.

    Attributes:
        url: where it came from.
        kind: its content type.
        retry_after: the header of that name, empty if there is none.
    """

    url: str
    status: int
    text: str
    kind: str
    retry_after: str


async def ask(http: aiohttp.ClientSession, method: str, url: str, most: int, **sent: Any) -> Reply:
    """Send a request, and read the reply.

    A redirect is followed on the same server only, and only if it keeps the method: prompts go to
    nobody else, and nowhere in plain text that were to go through TLS.

    Args:
        most: bytes of the reply, decompressed.
        sent: further arguments of aiohttp's requests.

    Raises:
        EndpointError: the reply is too large, or redirects elsewhere.
        aiohttp.ClientError, TimeoutError: there is none.
    """
    for _ in range(_HOPS):
        async with http.request(method, url, allow_redirects=False, **sent) as response:
            where = response.headers.get("Location", "")
            if response.status in _REDIRECTS and where:
                url = _followed(url, where, method, response.status)
                continue
            body = await _body(response, most)
            text = body.decode("utf-8", errors="replace")
            after = response.headers.get("Retry-After", "")
            return Reply(url, response.status, text, response.content_type, after)
    raise EndpointError(f"{url}: redirected more than {_HOPS} times; name another URL")


def _followed(url: str, where: str, method: str, status: int) -> str:
    try:
        target = urljoin(url, where)
        stays = _origin(target) == _origin(url)
    except ValueError:
        target, stays = where, False
    if stays and (method == "GET" or status in (307, 308)):
        return target
    raise EndpointError(
        f"{url}: redirects to {without_credentials(target)[:300]} (HTTP {status}); nothing was "
        "sent there: if that is the right server, name its URL",
        status,
    )


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, port


async def _body(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The body, decompressed no further than its bound."""
    import aiohttp  # not before a request: it loads for a while

    encoding = response.headers.get("Content-Encoding", "").strip().lower() or "identity"
    if encoding not in ("identity", "gzip", "x-gzip", "deflate"):
        raise EndpointError(f"{response.url}: the reply is encoded by {encoding[:40]!r}")
    unpack = None if encoding == "identity" else zlib.decompressobj(zlib.MAX_WBITS | 32)
    body = bytearray()
    while chunk := await response.content.readany():
        try:
            body += unpack.decompress(chunk, most + 1 - len(body)) if unpack else chunk
        except zlib.error as fault:
            raise aiohttp.ClientPayloadError(f"not {encoding}: {fault}") from None
        if len(body) > most:
            raise EndpointError(
                f"{response.url}: the reply has more than {most / 2**20:g} MiB; raise "
                "--max-reply-mib if it should"
            )
    return bytes(body)


class Keys:
    """Takes the run's own API keys out of what servers say, so that no report publishes them.

    Args:
        own: the key that the server gets; those in the environment count too.
    """

    def __init__(self, own: str = "") -> None:
        named = (value for name, value in os.environ.items() if _holds_key(name))
        keys = {key.strip() for key in (own, *named)}
        self._in_errors = _pattern({key for key in keys if len(key) >= 4})
        # Short words that people give to servers without keys, such as EMPTY, may be in answers.
        self._in_answers = _pattern({k for k in keys if len(k) >= 8 and not k.isalpha()})

    def hidden(self, text: str, is_answer: bool = False) -> str:
        """The text with each key replaced, also where JSON spells it with escapes."""
        pattern = self._in_answers if is_answer else self._in_errors
        if pattern is None:
            return text
        text = pattern.sub(_HIDDEN, text)
        if "\\u" in text or "\\/" in text:
            try:
                plain = json.dumps(json.loads(text), ensure_ascii=False)
            except (ValueError, RecursionError):
                return text
            if pattern.search(plain):
                return pattern.sub(_HIDDEN, plain)
        return text


def _holds_key(name: str) -> bool:
    own = name.startswith("REFUSAL_CHECKS_") and name.endswith("_API_KEY")
    return own or name in ("OPENAI_API_KEY", "HF_TOKEN")


def _pattern(keys: set[str]) -> re.Pattern[str] | None:
    spelled = {form for key in keys for form in (key, quote(key, safe=""), json.dumps(key)[1:-1])}
    forms = sorted(spelled, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, forms)), re.IGNORECASE) if forms else None


def allowance(body: Mapping[str, Any], most: int) -> int:
    """Bytes that the reply to a request may have: the limit, or more for many tokens."""
    asked = int(body.get("n", 1)) * int(body.get("max_tokens", 0))
    return max(most, asked * TOKEN)
