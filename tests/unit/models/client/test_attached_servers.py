"""Connections to servers that others run: which model, which key, and what a fault is told as."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from refusal_checks.core.errors import EndpointError, ModelError
from refusal_checks.core.prompts import Message
from refusal_checks.core.sampling import JudgeSampling, Sampling
from refusal_checks.models.client import attached_servers
from refusal_checks.models.client.attached_servers import (
    ATTEMPTS,
    QUESTION,
    attach,
    list_models,
)
from refusal_checks.models.client.client import Client, RequestParams
from refusal_checks.models.client.transport import ConnectionSettings
from refusal_checks.models.model_names import Attached
from tests.support.fake_server import STALL, FakeServer


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def connect(
    url: str,
    model: str = "",
    option: str = "--judge",
    number: int = 1,
    say: Callable[[str], None] = print,
    **named: Any,
) -> Client:
    attached = Attached(url, url, model, **named)
    sampling = JudgeSampling() if option == "--judge" else Sampling()
    return attach(attached, option, number, sampling, ConnectionSettings(), say)


def test_a_server_is_asked_one_question_in_the_way_of_the_run() -> None:
    with FakeServer() as server:
        server.max_model_len = 4096
        client = connect(server.url, option="--candidate")
    assert (client.model, client.context) == ("fake", 4096)
    (greeting,) = server.greetings
    assert greeting["messages"] == [{"role": "user", "content": QUESTION}]
    assert (greeting["temperature"], greeting["top_k"]) == (0.6, 20)
    assert client.usage.requests == 0, "it is no part of the run"


def test_a_model_that_is_not_listed_may_be_there_all_the_same() -> None:
    said: list[str] = []
    with FakeServer(models=["listed", "hidden"], lists=["listed"]) as server:
        assert connect(server.url, "hidden", say=said.append).model == "hidden"
        with pytest.raises(
            ModelError, match=r"#gone: name one of its models \(listed\): .*404"
        ):
            connect(server.url, "gone")
    (line,) = said
    assert line == (
        f"--judge {server.url}#hidden: check the name: the server answers, but lists only listed"
    )


def test_a_server_that_lists_nothing_or_several_is_asked_for_the_named_model() -> None:
    with FakeServer(lists=None) as server:
        assert connect(server.url, "fake").model == "fake"
        with pytest.raises(ModelError, match=r"add #MODEL, because .* lists no model"):
            connect(server.url)
    with FakeServer(models=["a", "b"]) as server:
        words = f"--judge {server.url}: add #MODEL, one of: a, b"
        with pytest.raises(ModelError, match=words):
            connect(server.url)


def chat(server: FakeServer, times: int = 1) -> Client:
    """The client that has sent a server a question so many times."""
    client = Client(server.url, "fake")

    async def chat() -> None:
        params = RequestParams(temperature=0.6, stop=("END",))
        async with client:
            for _ in range(times):
                await client.chat((Message("user", "hello"),), params)

    asyncio.run(chat())
    return client


def test_a_field_is_left_out_only_if_that_helps() -> None:
    """The message speaks of seeds, and means something else."""
    with FakeServer() as server:
        server.rule = lambda body: (400, {"error": "plant a seed elsewhere"})
        with pytest.raises(EndpointError, match="a seed"):
            chat(server)
    assert ["seed" in body for body in server.requests] == [True, False]


def test_each_field_that_a_server_refuses_by_name_is_left_out_from_then_on() -> None:
    with FakeServer(refuses=("max_tokens", "temperature", "stop")) as server:
        client = chat(server, times=2)
    assert client.left_out == {"max_tokens", "temperature", "stop"}
    *refused, first, second = server.requests
    assert len(refused) == len(client.left_out)
    for body in (first, second):
        assert body["max_completion_tokens"] == 512
        assert not client.left_out & body.keys()


@pytest.mark.parametrize("needed", ["messages", "model"])
def test_what_a_request_consists_of_is_not_left_out(needed: str) -> None:
    words = f"unknown fields: {needed}"
    with (
        FakeServer(refuses=[needed]) as server,
        pytest.raises(EndpointError, match=words),
    ):
        chat(server)


KEY = "set REFUSAL_CHECKS_JUDGE_API_KEY .*: HTTP"
API = "name the URL of its API.*"
FAULTS = {
    "401": (401, "", f"{KEY} 401"),
    "403": (403, "", f"{KEY} 403"),
    "404": (404, "", "check the model's name, and the URL.*: HTTP 404"),
    "429": (429, "", "wait a minute, then run the same command again.*: HTTP 429"),
    "500": (500, "", "look into the server's log: it failed: HTTP 500"),
    "a web page": (
        200,
        "<html><title>Sign in</title>",
        f'{API}: not valid JSON .*: a web page, "Sign in"',
    ),
    "no choices": (200, "{}", f"{API}: malformed answer"),
    "an empty list of choices": (
        200,
        '{"choices": []}',
        f"{API}log: its reply is not a model's answer: the server's reply has 0 answers in"
        " place of 1",
    ),
    "a redirect": (302, "", "use the URL that this one redirects to.* /login"),
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
        connect(server.url, "fake")
    assert len(requests) <= ATTEMPTS


@pytest.mark.parametrize("model", ["", "fake"])
@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("http:", "https:", "--judge {0}: write {1} if the server has no TLS"),
        ("/v1", "", "--judge {0}.*usually ends in /v1"),
    ],
)
def test_a_url_that_is_almost_right_is_asked_about(
    right: str, wrong: str, words: str, model: str
) -> None:
    with FakeServer() as server:
        url = server.url.replace(right, wrong)
        with pytest.raises(ModelError, match=words.format(url, server.url)):
            connect(url, model)


def test_a_server_that_is_not_there_is_named() -> None:
    with FakeServer() as server:
        url = server.url
    with pytest.raises(ModelError, match=rf"--judge {url}: start the server, or corr"):
        connect(url, "x")


async def stall(self: FakeServer, request: web.Request) -> web.StreamResponse:
    return await self._fault(request, STALL)


def test_a_server_that_takes_its_time_is_left_to_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attached_servers, "TIMEOUT", 0.5)
    monkeypatch.setattr(attached_servers, "SLOW", 0.1)
    monkeypatch.setattr(FakeServer, "_completed", stall)
    said: list[str] = []
    with FakeServer() as server:
        assert connect(server.url, say=said.append).model == "fake"
        assert said == [f"waiting for --judge {server.url} to answer"]


def test_a_server_that_lists_its_models_too_late_is_still_loading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attached_servers, "TIMEOUT", 0.2)
    monkeypatch.setattr(FakeServer, "_list_models", stall)
    words = "wait until the server has loaded its model, .*: Timeout: no answer within 0.2 s"
    with FakeServer() as server, pytest.raises(ModelError, match=words):
        connect(server.url)


@pytest.mark.parametrize(
    ("named", "words"),
    [
        (
            {"moderates": True},
            "--judge moderation:{0}#fake: check the URL, .* or leave out mod.*404",
        ),
        (
            {"template_kwargs": {"a": 1}},
            "leave out judge.template_variables: .*unknown fields",
        ),
    ],
)
def test_what_a_chat_server_cannot_do_is_named_with_the_key_to_change(
    named: dict[str, Any], words: str
) -> None:
    with (
        FakeServer(refuses=["chat_template_kwargs"]) as server,
        pytest.raises(ModelError, match=words.format(server.url)),
    ):
        connect(server.url, **named)


def test_a_key_may_end_a_line_and_must_be_sendable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    second = "REFUSAL_CHECKS_JUDGE_2_API_KEY"
    monkeypatch.setenv("REFUSAL_CHECKS_JUDGE_API_KEY", "secret\r\n")
    monkeypatch.setenv(second, "sec\nret")
    with FakeServer(api_key="secret") as server:
        assert connect(server.url).model == "fake"
        with pytest.raises(ModelError, match=second) as caught:
            connect(server.url, number=2)
    assert "ret" not in str(caught.value)


def test_the_models_of_a_server_are_listed_with_its_key() -> None:
    connection = ConnectionSettings("secret")
    with FakeServer(api_key="secret", models=["a", "b"]) as server:
        with pytest.raises(ModelError, match=r"REFUSAL_CHECKS_JUDGE_API_KEY.*401"):
            connect(server.url)
        for said, context in ((4096, 4096), (-1, None)):
            server.max_model_len = said
            found = list_models(server.url, connection)
            assert found == {"a": context, "b": context}
