"""HTTP as it is in the world: certificates, proxies, limits, other transports."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trustme

from refusal_checks.core.errors import EndpointError
from refusal_checks.core.prompts import Message
from refusal_checks.core.settings import Pace
from refusal_checks.models.client.client import CHAT, Client, RequestParams
from refusal_checks.models.client.transport import Access, HttpTransport, proxy
from tests.fake_server import FakeServer
from tests.tiny_proxy import TinyProxy

BODY = {"model": "fake", "messages": [{"role": "user", "content": "hello"}], "n": 1, "seed": 0}


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def post(url: str, times: int = 1, **settings: Any) -> list[Any]:
    """What a server answers to requests that are sent at the same time."""

    async def ask() -> list[Any]:
        async with HttpTransport(url, Access(**settings)) as own:
            return await asyncio.gather(*(own.post(CHAT, BODY) for _ in range(times)))

    return asyncio.run(ask())


@pytest.fixture
def authority(tmp_path: Path) -> trustme.CA:
    """Signs certificates; its own is in a file."""
    own = trustme.CA()
    own.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return own


@pytest.fixture
def secure(authority: trustme.CA) -> Iterator[FakeServer]:
    """A server with a certificate that no system knows."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1", "model.example").configure_cert(context)
    with FakeServer(ssl=context) as server:
        yield server


def test_an_unknown_certificate_is_refused_at_once(secure: FakeServer) -> None:
    with pytest.raises(EndpointError, match="certificate verify failed") as caught:
        post(secure.url)
    assert type(caught.value) is EndpointError, "no other try would help"


def test_a_certificate_of_an_authority_that_is_known_is_taken(
    secure: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    assert post(secure.url)[0]["choices"]


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy"])
def test_http_goes_through_the_proxy_that_the_environment_names(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeServer() as server, TinyProxy(server.port) as relay:
        monkeypatch.setenv(variable, relay.url)
        assert post("http://model.example/v1")[0]["choices"]
    assert relay.asked == ["POST http://model.example/v1/chat/completions HTTP/1.1"]


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


def test_a_proxy_gets_its_own_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeServer() as server, TinyProxy(server.port) as relay:
        monkeypatch.setenv("HTTP_PROXY", relay.url.replace("//", "//me:pass@"))
        post("http://model.example/v1", api_key="secret")
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
        post("http://model.example/v1")  # a name that nobody knows, so no proxy was asked


def test_where_a_redirect_leads_is_told() -> None:
    """Browsers make a GET of a POST that is redirected, and so does every client."""
    with FakeServer() as server:
        gone = (301, {"Location": f"{server.url}/elsewhere"})
        server.failing = {"hello": gone}
        with pytest.raises(EndpointError, match="/elsewhere: HTTP 404"):
            post(server.url)


def test_no_more_requests_than_allowed_are_under_way() -> None:
    with FakeServer(delay=0.1) as server:
        assert len(post(server.url, times=12, pace=Pace(at_once=3))) == 12
    assert server.most_at_once == 3


def test_waiting_for_a_turn_is_no_time_of_the_server() -> None:
    with FakeServer(delay=0.2) as server:
        assert len(post(server.url, times=8, pace=Pace(at_once=1), timeout=1.5)) == 8


def test_requests_are_no_faster_than_their_rate() -> None:
    with FakeServer() as server:
        begun = time.monotonic()
        post(server.url, times=5, pace=Pace(per_minute=1200))
    # Each of the last four waited for its turn, a twentieth of a second after the one before.
    assert time.monotonic() - begun >= 4 / 20


def test_a_transport_that_is_given_takes_all_requests() -> None:
    class Recorded:
        def __init__(self) -> None:
            self.asked: list[tuple[str, Any]] = []

        async def post(self, path: str, body: Mapping[str, Any]) -> Any:
            self.asked.append((path, body["messages"][0]["content"]))
            return {"choices": [{"message": {"content": "so"}, "finish_reason": "stop"}]}

    async def chat(own: Recorded) -> str:
        async with Client("", "fake", transport=own) as client:
            (choice,) = await client.chat((Message("user", "hello"),), RequestParams())
            return choice.text

    own = Recorded()
    assert asyncio.run(chat(own)) == "so"
    assert own.asked == [(CHAT, "hello")]


def test_a_proxy_without_a_scheme_is_one_of_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "proxy.example:3128")
    assert proxy("http://model.example/v1") == "http://proxy.example:3128"
    assert proxy("https://model.example/v1") is None
