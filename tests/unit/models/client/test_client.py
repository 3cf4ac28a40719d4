"""Tokens and tries, added up from what servers say."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web

from refusal_checks.core.errors import EndpointError
from refusal_checks.core.judgements import ABORTED, Reason
from refusal_checks.core.prompts import Message
from refusal_checks.core.records import Completion, find_fault
from refusal_checks.models.client import chat_replies
from refusal_checks.models.client.client import Client, RequestParams
from refusal_checks.models.client.server_errors import PromptTooLongError
from refusal_checks.models.client.usage import Usage
from refusal_checks.models.model_names import ModelOptions
from tests.support.fake_server import Body, FakeServer


def test_a_client_counts_what_the_server_reports_with_tries_and_failures() -> None:
    async def chat(url: str) -> Usage:
        async with Client(url, "fake") as client:
            for words in ("one two", "three"):
                await client.chat((Message("user", words),), RequestParams(n=2))
            return client.usage

    with FakeServer(lambda body: ["a b", "c"], cached=1) as server:
        found = asyncio.run(chat(server.url))
    assert found == Usage(requests=2, retries=0, prompt=3, cached=2, output=6)
    assert found + Usage(verdicts=1) == Usage(2, 0, 3, 2, 6, verdicts=1)


@pytest.mark.parametrize(
    ("asked", "said", "other"),
    [
        ("gpt-4o", "gpt-4o-2024-08-06", ""),
        ("org/Model", "model", ""),
        ("mistral-moderation-latest", "mistral-moderation-2411", ""),
        ("text-moderation-stable", "text-moderation-007", ""),
        ("gpt-4o", "gpt-4o-mini", "gpt-4o-mini"),
        ("new", "org/old", "org/old"),
        ("new", 7, ""),
    ],
)
def test_a_server_that_answers_as_another_model_is_found_out(
    asked: str, said: object, other: str
) -> None:
    client = Client("http://nowhere/v1", asked)
    client.count({"model": said})
    assert client.answers_as == other


QUESTION = (
    Message("system", "be brief"),
    Message("user", "hello"),
    Message("assistant", "hi"),
    Message("user", "and now?"),
)


def ask(
    server: FakeServer,
    params: RequestParams | None = None,
    messages: Sequence[Message] = QUESTION,
    **settings: object,
) -> list[Completion]:
    async def chat() -> list[Completion]:
        async with Client(server.url, "fake", **settings) as connection:  # type: ignore[arg-type]
            return list(await connection.chat(messages, params or RequestParams()))

    return asyncio.run(chat())


def test_sampling_settings_and_separate_turns_reach_the_server() -> None:
    settings: dict[str, Any] = {"n": 3, "temperature": 0.6, "top_p": 0.9, "top_k": 40}
    settings |= {"max_tokens": 77, "seed": 5, "logprobs": True}
    with FakeServer() as server:
        options = ModelOptions(template_kwargs={"persona": "judge"})
        ask(server, RequestParams(**settings), options=options)
    (body,) = server.requests
    turns = [(turn["role"], turn["content"]) for turn in body.pop("messages")]
    assert turns == [(turn.role, turn.content) for turn in QUESTION]
    assert body.pop("chat_template_kwargs") == {"persona": "judge"}
    assert body == {"model": "fake", **settings}


@pytest.mark.parametrize("said", sorted(ABORTED))
def test_an_answer_that_the_server_broke_off_is_asked_for_again(said: str) -> None:
    cut = f'{{"choices": [{{"message": {{"content": "cu"}}, "finish_reason": "{said}"}}]}}'
    with FakeServer(lambda body: ["whole"], faults=[cut]) as server:
        assert [choice.text for choice in ask(server)] == ["whole"]
    with (
        FakeServer(finish_reason=said) as server,
        pytest.raises(EndpointError, match=said),
    ):
        ask(server)


@pytest.mark.parametrize("index", ["", '"index": null, ', '"index": "0", '])
def test_a_lone_answer_needs_no_index_and_no_usage(index: str) -> None:
    answer = f'{{"choices": [{{{index}"message": {{"content": "a"}}, "finish_reason": "stop"}}]}}'
    with FakeServer(faults=[answer]) as server:
        assert ask(server, RequestParams(logprobs=True)) == [
            Completion("a", "stop", 0, None)
        ]


def chat(
    server: FakeServer, asked: int, context: int | None = None
) -> tuple[Completion, int | None]:
    """One answer of at most so many tokens, and the context that the client then knows."""

    async def run() -> tuple[Completion, int | None]:
        async with Client(server.url, "fake") as client:
            client.context = context
            (choice,) = await client.chat(QUESTION, RequestParams(max_tokens=asked))
            return choice, client.context

    return asyncio.run(run())


def limits(server: FakeServer) -> list[int]:
    return [body["max_tokens"] for body in server.requests]


def vllm(body: Body) -> str:
    """As vLLM 0.32 with a context of 4,096 tokens, which clamps what is smaller by itself."""
    most = int(body["max_tokens"])
    return f"max_tokens={most} cannot be greater than max_model_len=4096." * (
        most > 4096
    )


def test_a_server_that_refuses_so_many_tokens_is_asked_for_half_of_them() -> None:
    with FakeServer() as server:
        server.refusal = vllm
        chat(server, 8192)
        assert limits(server) == [8192, 4096]
        chat(server, 8192, context=4096)
        assert limits(server)[2:] == [4096]
        chat(server, 1024, context=4096)
        assert limits(server)[3:] == [1024]


@pytest.mark.parametrize(
    ("asked", "tried"),
    [(1000, [1000, 500, 250, 128]), (96, [96])],  # the user's own limit is small enough
)
def test_a_prompt_that_leaves_too_little_is_given_up(
    asked: int, tried: list[int]
) -> None:
    with FakeServer() as server:
        server.refusal = lambda body: "context_length_exceeded"
        with pytest.raises(PromptTooLongError, match=r"lower sampling\.max_tokens"):
            chat(server, asked)
    assert limits(server) == tried


@pytest.mark.parametrize(
    ("asked", "context", "room"),
    [
        (8192, 9, 3),
        (8192, 10, 0),  # cut by the server
        (8192, None, 0),
        (3, 9, 0),  # at its own limit
    ],
)
def test_an_answer_that_fills_the_context_says_so(
    monkeypatch: pytest.MonkeyPatch, asked: int, context: int | None, room: int
) -> None:
    """A prompt of six tokens, an answer of three."""
    monkeypatch.setattr(chat_replies, "LEAST", 3)
    with FakeServer(lambda body: ["one two three"], finish_reason="length") as server:
        assert chat(server, asked, context)[0].room == room


def test_a_few_tokens_that_a_server_leaves_are_no_answer() -> None:
    """vLLM takes a prompt that fills its context but for three tokens, and answers with these."""
    with FakeServer(lambda body: ["one two three"], finish_reason="length") as server:
        answer, _ = chat(server, 8192, 9)
    found = find_fault(answer, 8192)
    assert found
    assert found.reason is Reason.UNFINISHED_ANSWER


WORDS = "word " * 100


@pytest.mark.parametrize(
    ("text", "read", "is_cut"),
    [
        (WORDS, 60, True),
        (WORDS, 130, False),
        (WORDS, 0, False),  # the server does not count
        ("x" * 900, 60, False),
        (f"a{' ' * 900}b", 60, False),
    ],
)
def test_a_conversation_that_the_server_cut_gets_no_answer(
    text: str, read: int, is_cut: bool
) -> None:
    """Ollama drops what does not fit its context, and says nothing but how much it read."""
    choices = [{"message": {"content": "so"}, "finish_reason": "stop"}]
    refused = pytest.raises(PromptTooLongError, match=r"60 tokens .* of 100 words")
    with FakeServer() as server, refused if is_cut else contextlib.nullcontext():
        server.raw = web.json_response(
            {"choices": choices, "usage": {"prompt_tokens": read}}
        )
        assert ask(server, messages=[Message("user", text)])
