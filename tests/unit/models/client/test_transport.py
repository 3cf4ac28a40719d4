"""HTTP as it is in the world: certificates, proxies, limits, other transports."""

import asyncio
import gzip
import json
import ssl
import time
from collections.abc import Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import trustme
from aiohttp import web

from refusal_checks.core.errors import EndpointError, ModelError
from refusal_checks.core.settings import RequestPace
from refusal_checks.models.client.client import CHAT
from refusal_checks.models.client.server_errors import TransientError
from refusal_checks.models.client.transport import (
    FRAME,
    LARGE_AT_ONCE,
    MOST,
    TOKEN,
    ConnectionSettings,
    HttpTransport,
    _content,
    decode_json,
    encode_json,
)
from tests.support.fake_server import FakeServer
from tests.support.tiny_proxy import TinyProxy

BODY = {
    "model": "fake",
    "messages": [{"role": "user", "content": "hello"}],
    "n": 1,
    "seed": 0,
}


@pytest.mark.parametrize("body", [{"a": "\ud800 文"}, {"文": ["b", None, 0.1, 2**70]}])
def test_a_request_is_json_even_where_utf_8_cannot_hold_it(
    body: dict[str, Any],
) -> None:
    assert json.loads(encode_json(body)) == body


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "\\ud800", "b": [-0.1234567890123456789, 1e-7, 5e-324, 1e999]}',
        '[{"a": 1, "a": 2}, 123456789012345678901234567890]',
        "[" * 300 + "]" * 300,
    ],
)
def test_a_reply_is_read_as_the_standard_library_reads_it(text: str) -> None:
    assert decode_json(text) == json.loads(text)


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def post(
    url: str, more: Mapping[str, int] = {}, times: int = 1, **settings: Any
) -> list[Any]:
    """What a server answers to requests that are sent at the same time."""
    body = {**BODY, **more}

    async def ask() -> list[Any]:
        async with HttpTransport(url, ConnectionSettings(**settings)) as own:
            return await asyncio.gather(*(own.post(CHAT, body) for _ in range(times)))

    return asyncio.run(ask())


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[FakeServer]:
    """A server with a certificate that no system knows; its authority's is in a file."""
    authority, context = (
        trustme.CA(),
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH),
    )
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    authority.issue_cert("127.0.0.1", "model.example").configure_cert(context)
    with FakeServer(ssl=context) as server:
        yield server


def test_a_certificate_is_refused_at_once_unless_its_authority_is_known(
    secure: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        EndpointError, match=r"SSL_CERT_FILE.*certificate verify failed"
    ) as caught:
        post(secure.url)
    assert type(caught.value) is EndpointError, "no other try would help"
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    assert post(secure.url)[0]["choices"]


def test_https_goes_through_a_tunnel(
    secure: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with TinyProxy(secure.port) as relay:
        monkeypatch.setenv("HTTPS_PROXY", relay.url)
        assert post("https://model.example/v1", api_key="secret")[0]["choices"]
    assert relay.asked == ["CONNECT model.example:443 HTTP/1.1"]
    assert secure.authorizations == ["Bearer secret"]
    assert relay.credentials == [""], "the server's key is none of the proxy's business"


def test_a_proxy_of_the_environment_gets_its_own_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with FakeServer() as server, TinyProxy(server.port) as relay:
        monkeypatch.setenv("http_proxy", relay.url.replace("//", "//me:pass@"))
        post("http://model.example/v1", api_key="secret")
    assert relay.asked == ["POST http://model.example/v1/chat/completions HTTP/1.1"]
    assert relay.credentials == ["Basic bWU6cGFzcw=="]
    assert server.authorizations == ["Bearer secret"]


def test_servers_on_this_machine_and_those_of_no_proxy_are_asked_directly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # where nobody listens
    with FakeServer() as server:
        for name in ("127.0.0.1", "localhost"):
            assert post(server.url.replace("127.0.0.1", name))[0]["choices"]
    monkeypatch.setenv("NO_PROXY", ".example")
    # A name that nobody knows, so no proxy was asked.
    with pytest.raises(EndpointError, match=r"model\.example"):
        post("http://model.example/v1")


@pytest.mark.parametrize(
    ("status", "where", "named"),
    [
        (301, "http://127.0.0.1:{0}/v1/elsewhere", "http://127.0.0.1:{0}/v1/elsewhere"),
        (307, "https://127.0.0.1:{0}/v1/a", "https://127.0.0.1:{0}/v1/a"),
        (307, "//[bad", ""),
        (307, "//u:PW@[bad", ""),
        (307, "http://u:PW@127.0.0.1:{0}/", ""),
        (307, "ftp://x/y?key=PW", ""),
        (307, "http://127.0.0.1:1/sk-PW-123456", r"http://127.0.0.1:1/\[API key\]"),
    ],
)
def test_a_redirect_is_an_error_that_names_both_servers_and_no_credentials(
    status: int, where: str, named: str
) -> None:
    with FakeServer() as other, FakeServer() as server:
        to = where.format(other.port)
        server.failing = {"hello": (status, {"Location": to})}
        words = f"redirects to, if you trust it: {named.format(other.port)}"
        with pytest.raises(EndpointError, match=words) as caught:
            post(server.url, api_key="sk-PW-123456")
        assert len(server.requests) == 1
    assert not isinstance(caught.value, TransientError)
    assert server.url in str(caught.value)
    assert "PW" not in str(caught.value)
    assert not other.authorizations


def sending(body: bytes, **headers: str) -> web.Response:
    return web.Response(body=body, headers=headers, content_type="application/json")


REPLY = json.dumps({"choices": [{"message": {"content": "so"}}]}).encode()


@pytest.mark.parametrize(
    ("limit", "length"),
    [({"max_tokens": 1}, FRAME + TOKEN), ({}, MOST), ({"max_tokens": 2**20}, MOST)],
)
def test_a_reply_is_bounded_by_the_tokens_that_were_asked_for(
    limit: dict[str, int], length: int
) -> None:
    with FakeServer() as server:
        server.raw = sending(REPLY.ljust(length))
        assert post(server.url, limit)[0]["choices"]
        server.raw = sending(REPLY.ljust(length + 1))
        with pytest.raises(EndpointError, match="more than the tokens") as caught:
            post(server.url, limit)
    assert not isinstance(caught.value, TransientError)


def test_a_compressed_reply_which_nobody_asked_for_is_not_unpacked() -> None:
    with FakeServer() as server:
        server.raw = sending(gzip.compress(REPLY), **{"Content-Encoding": "gzip"})
        with pytest.raises(EndpointError, match="encoded as 'gzip'") as caught:
            post(server.url)
    assert not isinstance(caught.value, TransientError)


class Pieces:
    """A reply that comes in pieces of a mebibyte, the third one only when it is let through."""

    url = "http://server"
    headers: Mapping[str, str] = {}

    def __init__(self, pieces: int, third: asyncio.Event) -> None:
        self.content = self
        self.read = 0
        self._pieces = pieces
        self._third = third

    async def readany(self) -> bytes:
        await asyncio.sleep(0)
        self.read += 1
        if self.read == 3:
            await self._third.wait()
        return b"x" * 2**20 if self.read <= self._pieces else b""


def test_few_large_replies_are_in_memory_at_a_time() -> None:
    async def read() -> list[int]:
        third, large = asyncio.Event(), asyncio.Semaphore(LARGE_AT_ONCE)

        def content(reply: Pieces) -> Coroutine[Any, Any, int]:
            return _content(reply, 2**30, large, len)  # type: ignore[arg-type]

        replies = [Pieces(3, third) for _ in range(LARGE_AT_ONCE + 1)]
        tasks = [asyncio.create_task(content(reply)) for reply in replies]
        for _ in range(9):  # small ones have room beside them
            await content(Pieces(1, third))
        # All but one have gone on to the third piece.
        assert sorted(reply.read for reply in replies) == [2] + [3] * LARGE_AT_ONCE
        third.set()
        return [await task for task in tasks]

    assert asyncio.run(read()) == [3 * 2**20] * (LARGE_AT_ONCE + 1)


KEY = 'sk-CAND/KEY"123456'


@pytest.mark.parametrize(
    ("key", "spelled"),
    [
        (KEY, KEY),
        (KEY, KEY.upper()),
        (KEY, json.dumps(KEY)[1:-1]),
        (KEY, quote(KEY, safe="")),
        ("opensesame", "opensesame"),
        ("k1-2", "k1-2"),
    ],
)
def test_a_server_that_repeats_a_key_does_not_publish_it(
    key: str, spelled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFUSAL_CHECKS_JUDGE_2_API_KEY", "another-secret-99")
    said = f"Incorrect API key provided: {spelled} another-secret-99"
    escaped = json.dumps({"error": {"message": said}}).replace("K", "\\u004b").encode()
    for raw in (said.encode(), escaped):
        with FakeServer() as server:
            server.raw = sending(raw)
            server.raw.set_status(401)
            with pytest.raises(EndpointError, match="HTTP 401") as caught:
                post(server.url, api_key=key)
        assert str(caught.value).endswith("provided: [API key] [API key]")


def test_a_key_in_an_answer_is_replaced_and_a_word_that_serves_as_one_is_not() -> None:
    reply = json.dumps({"answer": f"my key is {KEY}. EMPTY"})
    for raw in (reply, reply.replace("K", "\\u004b")):
        for key, found in (
            (KEY, {"answer": "my key is [API key]. EMPTY"}),
            ("EMPTY", json.loads(reply)),
        ):
            with FakeServer() as server:
                server.raw = sending(raw.encode())
                assert post(server.url, api_key=key) == [found]


WRITE = "HTTP_PROXY: write http://HOST:PORT"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("http://u:PW@bad:port", WRITE),
        ("http://u:PW@:80", WRITE),
        ("socks5://u:PW@x:1", WRITE),
        ("http://[u:PW@x", WRITE),
        ("http://u:PW@127.0.0.1:9", "Connect"),  # where nobody listens
    ],
)
def test_no_message_about_a_proxy_shows_its_password(
    value: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", value)
    with pytest.raises((ModelError, EndpointError), match=words) as caught:
        post("http://model.example/v1")
    assert "PW" not in str(caught.value)


def test_no_more_requests_than_allowed_are_under_way_and_waiting_is_no_time_of_the_server() -> (
    None
):
    with FakeServer(delay=0.1) as server:
        one = RequestPace(at_once=1)
        assert len(post(server.url, times=8, pace=one, timeout=0.75)) == 8
    assert server.most_at_once == 1


def test_requests_are_no_faster_than_their_rate() -> None:
    with FakeServer() as server:
        begun = time.monotonic()
        post(server.url, times=5, pace=RequestPace(per_minute=3000))
    # Each of the last four waited for its turn, a fiftieth of a second after the one before.
    assert time.monotonic() - begun >= 4 / 50


class Twice(asyncio.Protocol):
    """Answers each request by its number, and says so again a moment later."""

    count = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        Twice.count += 1
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(str(Twice.count))}\r\n\r\n"
        reply = f"{head}{Twice.count}".encode()
        self._transport.write(reply)
        asyncio.get_running_loop().call_later(0.05, self._transport.write, reply)


def test_what_arrives_on_an_idle_connection_is_no_answer() -> None:
    async def ask() -> list[Any]:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Twice, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        found = []
        async with server, HttpTransport(f"http://127.0.0.1:{port}") as own:
            for _ in range(4):
                found.append(await own.post("", {}))
                await asyncio.sleep(0.1)
        return found

    assert asyncio.run(ask()) == [1, 2, 3, 4]
