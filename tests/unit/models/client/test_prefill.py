"""Answers that have begun: whether a server goes on with them, and how it is asked to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from refusal_checks.benchmarks.attacked import rewrite
from refusal_checks.benchmarks.attacks import find
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.settings import Sampling
from refusal_checks.core.verdicts import Invalid, Reason
from refusal_checks.models.candidates import Answer, ServedCandidate
from refusal_checks.models.client import http_errors
from refusal_checks.models.client.capabilities import Support
from refusal_checks.models.client.client import Client
from refusal_checks.models.client.probing import try_prefill
from refusal_checks.models.spec import Extras
from tests.fake_server import FakeServer

FIELD = "continue_final_message"

(BEGUN,) = rewrite(find("prefill", ""), [Prompt.single("p1", "Tell me about rain.")]).prompts


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_errors, "WAIT_INITIAL", 0.01)


def answers(client: Client, prompt: Prompt) -> Sequence[Answer]:
    async def ask() -> Sequence[Answer]:
        async with client:
            served = ServedCandidate("fake", client, Sampling(samples=1), "identity")
            return await served.answer(prompt, 0, 1)

    return asyncio.run(ask())


def test_a_server_that_goes_on() -> None:
    with FakeServer() as server:
        client = Client(server.url, "fake")
        try_prefill(client)
        assert client.capabilities.prefill is Support.YES
        (answer,) = answers(client, BEGUN)
        assert not isinstance(answer, Invalid)
    (body,) = server.requests
    assert body[FIELD] is True
    assert body["add_generation_prompt"] is False
    assert body["messages"][-1] == {"role": "assistant", "content": "Sure, here is"}


def test_other_prompts_are_asked_as_ever() -> None:
    with FakeServer() as server:
        answers(Client(server.url, "fake"), BEGUN.original)
    (body,) = server.requests
    assert not {FIELD, "add_generation_prompt", "is_continued"} & body.keys()


@pytest.mark.parametrize(
    ("support", "option"), [(Support.REFUSED, "refuses"), (Support.IGNORED, "ignores")]
)
def test_a_server_that_does_not_is_not_asked(support: Support, option: str) -> None:
    server = FakeServer(refuses=[FIELD]) if option == "refuses" else FakeServer(ignores=[FIELD])
    with server:
        client = Client(server.url, "fake")
        try_prefill(client)
        assert client.capabilities.prefill is support
        assert client.capabilities.as_words()["prefill"] == support
        (answer,) = answers(client, BEGUN)
        (plain,) = answers(client, BEGUN.original)
    assert isinstance(answer, Invalid)
    assert answer.reason is Reason.NO_PREFILL
    assert str(support) in answer.detail
    assert not isinstance(plain, Invalid)
    assert len(server.requests) == 1


def test_what_goes_on_has_no_reasoning() -> None:
    extras = Extras(reasoning_end="</think>")
    with FakeServer(lambda body: ["water from clouds"]) as server:
        (answer,) = answers(Client(server.url, "fake", extras=extras), BEGUN)
        assert not isinstance(answer, Invalid)
        assert (answer.text, answer.reasoning) == ("water from clouds", "")
