"""Connections to servers that others run: which model, which key, and what a fault is told as."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from aiohttp import web

from refusal_checks.core.errors import EndpointError, ModelError
from refusal_checks.core.prompts import Message
from refusal_checks.core.sampling import JudgeSampling, Sampling
from refusal_checks.models.client.attached_servers import (
    ATTEMPTS,
    QUESTION,
    attach,
    list_models,
)
from refusal_checks.models.client.client import Client, RequestParams
from refusal_checks.models.client.transport import ConnectionSettings
from refusal_checks.models.model_names import Attached
from tests.support.fake_server import STALL, Body, FakeServer


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def connect(
    server: FakeServer,
    model: str = "",
    option: str = "--judge",
    number: int = 1,
    say: Callable[[str], None] = print,
) -> Client:
    named = Attached(server.url, server.url, model)
    sampling = JudgeSampling() if option == "--judge" else Sampling()
    return attach(named, option, number, sampling, ConnectionSettings(), say)


def test_a_server_is_asked_one_question_in_the_way_of_the_run() -> None:
    with FakeServer() as server:
        server.max_model_len = 4096
        client = connect(server, option="--candidate")
    assert (client.model, client.context) == ("fake", 4096)
    (greeting,) = server.greetings
    assert greeting["messages"] == [{"role": "user", "content": QUESTION}]
    assert (greeting["temperature"], greeting["top_k"]) == (0.6, 20)
    assert client.usage.requests == 0, "it is no part of the run"


def test_a_model_that_is_not_listed_may_be_there_all_the_same() -> None:
    with FakeServer(models=["listed", "hidden"], lists=["listed"]) as server:
        said: list[str] = []
        assert connect(server, "hidden", say=said.append).model == "hidden"
        (line,) = said
        assert line.startswith(
            f"--judge {server.url}#hidden: check the name: the server ans"
        )
        assert line.endswith("but lists only listed")
        with pytest.raises(
            ModelError, match=r"#gone: name one of its models \(listed\): .*404"
        ):
            connect(server, "gone")


def test_a_server_that_lists_nothing_or_several_is_asked_for_the_named_model() -> None:
    with FakeServer(lists=None) as server:
        assert connect(server, "fake").model == "fake"
        with pytest.raises(ModelError, match=r"add #MODEL, because .* lists no model"):
            connect(server)
    with (
        FakeServer(models=["a", "b"]) as server,
        pytest.raises(
            ModelError, match=f"--judge {server.url}: add #MODEL, one of: a, b"
        ),
    ):
        connect(server)


def test_a_field_is_left_out_only_if_that_helps() -> None:
    """The message speaks of seeds, and means something else."""

    async def chat(client: Client) -> None:
        async with client:
            with pytest.raises(EndpointError, match="a seed"):
                await client.chat((Message("user", "hello"),), RequestParams())

    with FakeServer() as server:
        server.rule = lambda body: (400, {"error": "plant a seed elsewhere"})
        client = Client(server.url, "fake")
        asyncio.run(chat(client))
    assert not client.left_out
    assert len(server.requests) == 2


def refused(*fields: str) -> tuple[Client, list[Body]]:
    """The client of a server that refuses these fields, and the requests until it answered."""
    with FakeServer(refuses=fields) as server:
        client = Client(server.url, "fake")

        async def chat() -> None:
            params = RequestParams(temperature=0.6, stop=("END",))
            async with client:
                for _ in range(2):
                    await client.chat((Message("user", "hello"),), params)

        asyncio.run(chat())
        return client, server.requests


def test_each_field_that_a_server_refuses_by_name_is_left_out_from_then_on() -> None:
    client, requests = refused("max_tokens", "temperature", "stop")
    assert client.left_out == {"max_tokens", "temperature", "stop"}
    assert len(requests) == 3 + 2
    for body in requests[3:]:
        assert body["max_completion_tokens"] == 512
        assert not client.left_out & body.keys()


@pytest.mark.parametrize("needed", ["messages", "model"])
def test_what_a_request_consists_of_is_not_left_out(needed: str) -> None:
    with pytest.raises(EndpointError, match=f"unknown fields: {needed}"):
        refused(needed)


KEY = "set REFUSAL_CHECKS_JUDGE_API_KEY .*: HTTP"
API = "name the URL of its API.*"
FAULTS = {
    "401": (401, "", f"{KEY} 401"),
    "403": (403, "", f"{KEY} 403"),
    "404": (404, "", "check the model's name, and the URL.*: HTTP 404"),
    "429": (429, "", "wait a minute, then run the same command again.*: HTTP 429"),
    "500": (500, "", "look into the server's log: it fails: HTTP 500"),
    "a web page": (
        200,
        "<html><title>Sign in</title>",
        f'{API}: not valid JSON .*: a web page, "Sign in"',
    ),
    "no choices": (200, "{}", f"{API}: malformed answer"),
    "an empty list of choices": (
        200,
        '{"choices": []}',
        f"{API}log: it answers otherwise .*: the server's reply has 0 answers in place of 1",
    ),
    "a redirect": (302, "", "name the URL that answers.* redirects to /login"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_has_its_own_message_after_few_attempts(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, text, words = FAULTS[name]
    requests = []

    async def fail(self: FakeServer, request: web.Request) -> web.StreamResponse:
        requests.append(request)
        headers = {"Location": "/login"}
        return web.Response(status=status, text=text, headers=headers)

    monkeypatch.setattr(FakeServer, "_completed", fail)
    with (
        FakeServer(lists=None) as server,
        pytest.raises(ModelError, match=rf"--judge {server.url}#fake: {words}"),
    ):
        connect(server, "fake")
    assert len(requests) <= ATTEMPTS


def test_a_server_that_is_not_there_is_named() -> None:
    with FakeServer() as server:
        url = server.url
    with pytest.raises(
        ModelError, match=rf"--judge {url}: start the server, or correct"
    ):
        attach(
            Attached(url, url, "x"),
            "--judge",
            1,
            JudgeSampling(),
            ConnectionSettings(),
            print,
        )


def test_https_to_a_server_without_tls_says_what_to_write() -> None:
    with FakeServer() as server:
        url = server.url.replace("http:", "https:")
        for model in ("", "fake"):
            named = Attached(url, url, model)
            with pytest.raises(
                ModelError,
                match=rf"--judge {url}: write {server.url} if the server has no TLS",
            ):
                attach(
                    named, "--judge", 1, JudgeSampling(), ConnectionSettings(), print
                )


def test_a_server_that_takes_its_time_is_left_to_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("refusal_checks.models.client.attached_servers.TIMEOUT", 0.5)
    monkeypatch.setattr("refusal_checks.models.client.attached_servers.SLOW", 0.1)

    async def stall(self: FakeServer, request: web.Request) -> web.StreamResponse:
        return await self._fault(request, STALL)

    monkeypatch.setattr(FakeServer, "_completed", stall)
    said: list[str] = []
    with FakeServer() as server:
        assert connect(server, say=said.append).model == "fake"
        assert said == [f"waiting for --judge {server.url} to answer"]


def test_a_server_that_lists_its_models_too_late_is_there_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("refusal_checks.models.client.attached_servers.TIMEOUT", 0.2)

    async def stall(self: FakeServer, request: web.Request) -> web.StreamResponse:
        return await self._fault(request, STALL)

    monkeypatch.setattr(FakeServer, "_list_models", stall)
    words = "wait until the server has loaded its model, .*: Timeout: no answer within 0.2 s"
    with FakeServer() as server, pytest.raises(ModelError, match=words):
        connect(server)


def test_a_chat_server_that_is_named_as_a_moderation_endpoint_moderates_nothing() -> (
    None
):
    with FakeServer() as server:
        model = Attached(f"moderation:{server.url}", server.url, "", moderates=True)
        words = f"--judge moderation:{server.url}#fake: check the URL, .* or leave out mod.*404"
        with pytest.raises(ModelError, match=words):
            attach(model, "--judge", 1, JudgeSampling(), ConnectionSettings(), print)


def test_a_url_that_lacks_its_end_is_asked_about() -> None:
    with FakeServer() as server:
        base = Attached("x", server.url.removesuffix("/v1"), "")
        for model in (base, replace(base, model="fake")):
            with pytest.raises(ModelError, match=r"usually ends in /v1"):
                attach(
                    model, "--judge", 1, JudgeSampling(), ConnectionSettings(), print
                )


def test_a_key_may_end_a_line_and_must_be_sendable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with FakeServer(api_key="secret") as server:
        monkeypatch.setenv("REFUSAL_CHECKS_JUDGE_API_KEY", "secret\r\n")
        assert connect(server).model == "fake"
        monkeypatch.setenv("REFUSAL_CHECKS_JUDGE_2_API_KEY", "sec\nret")
        with pytest.raises(
            ModelError, match="REFUSAL_CHECKS_JUDGE_2_API_KEY"
        ) as caught:
            connect(server, number=2)
    assert "ret" not in str(caught.value)


def test_refused_template_variables_are_named_by_their_key() -> None:
    with FakeServer(refuses=["chat_template_kwargs"]) as server:
        model = Attached(server.url, server.url, "", template_kwargs={"a": 1})
        with pytest.raises(
            ModelError, match=r"leave out judge.template_variables: .*unknown fields"
        ):
            attach(model, "--judge", 1, JudgeSampling(), ConnectionSettings(), print)


def test_the_models_of_a_server_are_listed_with_its_key() -> None:
    with FakeServer(api_key="secret", models=["a", "b"]) as server:
        with pytest.raises(ModelError, match=r"REFUSAL_CHECKS_JUDGE_API_KEY.*401"):
            connect(server)
        server.max_model_len = 4096
        connection = ConnectionSettings("secret")
        assert list_models(server.url, connection) == {"a": 4096, "b": 4096}
        server.max_model_len = -1
        assert list_models(server.url, connection) == {"a": None, "b": None}
