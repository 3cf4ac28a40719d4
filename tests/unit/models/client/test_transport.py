"""HTTP as it is in the world: certificates, proxies, limits, other transports."""

import asyncio
import gzip
import json
import re
import ssl
import time
from collections.abc import Iterator
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


@pytest.mark.parametrize(
    "body", [{"a": "\ud800 文"}, {"a": [1, None, True, 0.1], "文": ("b", 2**70)}]
)
def test_a_request_is_json_even_where_utf_8_cannot_hold_it(
    body: dict[str, Any],
) -> None:
    assert json.loads(encode_json(body)) == json.loads(json.dumps(body))


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


def post(url: str, times: int = 1, **settings: Any) -> list[Any]:
    """What a server answers to requests that are sent at the same time."""

    async def ask() -> list[Any]:
        async with HttpTransport(url, ConnectionSettings(**settings)) as own:
            return await asyncio.gather(*(own.post(CHAT, BODY) for _ in range(times)))

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


def test_https_to_a_server_without_tls_says_what_to_write() -> None:
    with FakeServer() as server:
        plain = server.url
        with pytest.raises(EndpointError) as caught:
            post(plain.replace("http:", "https:"))
    assert type(caught.value) is EndpointError, "no other try would help"
    assert f"write {plain} if the server has no TLS" in str(caught.value)


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
        assert post(server.url)[0]["choices"]
        assert post(server.url.replace("127.0.0.1", "localhost"))[0]["choices"]
    monkeypatch.setenv("NO_PROXY", ".example")
    with pytest.raises(EndpointError, match=r"model\.example"):
        post(
            "http://model.example/v1"
        )  # a name that nobody knows, so no proxy was asked


@pytest.mark.parametrize(("status", "scheme"), [(301, "http"), (307, "https")])
def test_a_redirect_to_another_server_is_an_error_that_names_both(
    status: int, scheme: str
) -> None:
    with FakeServer() as other, FakeServer() as server:
        where = f"{scheme}://127.0.0.1:{other.port}/v1/elsewhere"
        server.failing = {"hello": (status, {"Location": where})}
        with pytest.raises(EndpointError) as caught:
            post(server.url)
        assert not isinstance(caught.value, TransientError)
        assert server.url in str(caught.value)
        assert where in str(caught.value)
        assert len(server.requests) == 1
    assert not other.authorizations


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ("//[bad", ""),
        ("//u:PW@[bad", ""),
        ("http://u:PW@127.0.0.1:1/", ""),
        ("ftp://x/y?key=PW", ""),
        ("http://127.0.0.1:1/sk-PW-123456", r"http://127.0.0.1:1/\[API key\]"),
    ],
)
def test_a_redirect_shows_no_credentials_and_may_be_malformed(
    where: str, named: str
) -> None:
    with FakeServer() as server:
        server.failing = {"hello": (307, {"Location": where})}
        with pytest.raises(EndpointError, match=f"redirects to {named}") as caught:
            post(server.url, api_key="sk-PW-123456")
    assert "PW" not in str(caught.value)


def sending(body: bytes, **headers: str) -> web.Response:
    return web.Response(body=body, headers=headers, content_type="application/json")


REPLY = json.dumps({"choices": [{"message": {"content": "so"}}]}).encode()


@pytest.mark.parametrize(
    ("tokens", "length"), [(1, FRAME + TOKEN), (None, MOST), (2**20, MOST)]
)
def test_a_reply_is_bounded_by_the_tokens_that_were_asked_for(
    tokens: int | None, length: int
) -> None:
    async def ask(url: str) -> Any:
        body = BODY if tokens is None else {**BODY, "max_tokens": tokens}
        async with HttpTransport(url) as own:
            return await own.post(CHAT, body)

    with FakeServer() as server:
        server.raw = sending(REPLY.ljust(length))
        assert asyncio.run(ask(server.url))["choices"]
        server.raw = sending(REPLY.ljust(length + 1))
        with pytest.raises(EndpointError, match="more than the tokens") as caught:
            asyncio.run(ask(server.url))
    assert not isinstance(caught.value, TransientError)


@pytest.mark.parametrize("encoding", ["gzip", "br"])
def test_a_compressed_reply_which_nobody_asked_for_is_not_unpacked(
    encoding: str,
) -> None:
    with FakeServer() as server:
        server.raw = sending(gzip.compress(REPLY), **{"Content-Encoding": encoding})
        with pytest.raises(EndpointError, match=f"encoded as '{encoding}'") as caught:
            post(server.url)
    assert not isinstance(caught.value, TransientError)


class Pieces:
    """A reply that comes in pieces of a mebibyte, the third one only when it is let through."""

    url = "http://server"

    def __init__(self, pieces: int, third: asyncio.Event) -> None:
        self.headers: dict[str, str] = {}
        self.content = self
        self.read = 0
        self.wants_third = False
        self._pieces = pieces
        self._third = third

    async def readany(self) -> bytes:
        await asyncio.sleep(0)
        if self.read == 2:
            self.wants_third = True
            await self._third.wait()
        self.read += 1
        return b"x" * 2**20 if self.read <= self._pieces else b""


def test_few_large_replies_are_in_memory_at_a_time() -> None:
    async def read() -> list[int]:
        third, large = asyncio.Event(), asyncio.Semaphore(LARGE_AT_ONCE)
        replies = [Pieces(3, third) for _ in range(LARGE_AT_ONCE + 1)]
        tasks = [
            asyncio.create_task(_content(reply, 2**30, large, len))  # type: ignore[arg-type]
            for reply in replies
        ]
        for _ in range(9):  # small ones have room beside them
            await _content(Pieces(1, third), 2**30, large, len)  # type: ignore[arg-type]
        assert [reply.read for reply in replies] == [2] * len(replies)
        assert sum(reply.wants_third for reply in replies) == LARGE_AT_ONCE
        third.set()
        return [await task for task in tasks]

    assert asyncio.run(read()) == [3 * 2**20] * (LARGE_AT_ONCE + 1)


@pytest.mark.parametrize("body", [b"\x1f\x8bno text", b"[" * 200_000, b"9" * 5000])
def test_a_reply_that_cannot_be_read_may_be_asked_for_again(body: bytes) -> None:
    with FakeServer() as server:
        server.raw = sending(body)
        with pytest.raises(TransientError):
            post(server.url)


KEY = 'sk-CAND/KEY"123456'


@pytest.mark.parametrize(
    "spelled", [KEY, KEY.upper(), json.dumps(KEY)[1:-1], quote(KEY, safe="")]
)
def test_a_server_that_repeats_a_key_does_not_publish_it(
    spelled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFUSAL_CHECKS_JUDGE_2_API_KEY", "another-secret-99")
    said = f"Incorrect API key provided: {spelled} another-secret-99"
    escaped = json.dumps({"error": {"message": said}}).replace("K", "\\u004b").encode()
    for raw in (said.encode(), escaped):
        with FakeServer() as server:
            server.raw = sending(raw)
            server.raw.set_status(401)
            with pytest.raises(EndpointError, match="HTTP 401") as caught:
                post(server.url, api_key=KEY)
        assert "another-secret-99" not in str(caught.value)
        assert not re.search("sk-CAND.{0,4}KEY", str(caught.value), re.IGNORECASE)


@pytest.mark.parametrize("key", ["opensesame", "k1-2"])
def test_a_weak_key_is_hidden_in_errors_too(key: str) -> None:
    with FakeServer() as server:
        server.raw = sending(f"Incorrect API key provided: {key}".encode())
        server.raw.set_status(401)
        with pytest.raises(EndpointError, match=r"provided: \[API key\]"):
            post(server.url, api_key=key)


def test_a_key_in_an_answer_is_replaced_and_a_word_that_serves_as_one_is_not() -> None:
    reply = {"choices": [{"message": {"content": f"my key is {KEY}. EMPTY"}}]}
    for raw in (json.dumps(reply), json.dumps(reply).replace("K", "\\u004b")):
        with FakeServer() as server:
            server.raw = sending(raw.encode())
            (found,) = post(server.url, api_key=KEY)
            assert (
                found["choices"][0]["message"]["content"]
                == "my key is [API key]. EMPTY"
            )
            server.raw = sending(raw.encode())
            (found,) = post(server.url, api_key="EMPTY")
            assert found == reply


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        *((f"http://u:PW@{rest}", ModelError) for rest in ("bad:port", ":80")),
        *((value, ModelError) for value in ("socks5://u:PW@x:1", "http://[u:PW@x")),
        ("http://u:PW@127.0.0.1:9", EndpointError),  # where nobody listens
    ],
)
def test_no_message_about_a_proxy_shows_its_password(
    value: str, fault: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", value)
    with pytest.raises(fault) as caught:
        post("http://model.example/v1")
    assert "PW" not in str(caught.value)
    assert ("HTTP_PROXY: write http://HOST:PORT" in str(caught.value)) is (
        fault is ModelError
    )


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
