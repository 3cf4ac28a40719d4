"""Answers that have begun: whether a server goes on with them, and how it is asked to."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from refusal_checks.benchmarks.attacks import find, rewrite
from refusal_checks.core.errors import EndpointError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.sampling import Sampling
from refusal_checks.core.verdicts import Invalid, Reason
from refusal_checks.models.candidates import Answer, ServedCandidate
from refusal_checks.models.client.capabilities import Support
from refusal_checks.models.client.client import Client
from refusal_checks.models.client.probing import try_prefill
from refusal_checks.models.client.server_errors import TransientError
from tests.fake_server import FakeServer

FIELD = "continue_final_message"

(BEGUN,), _ = rewrite(find("prefill", ""), [Prompt.single("p1", "Tell me about rain.")])


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
        answers(Client(server.url, "fake"), BEGUN.original)
    body, other = server.requests
    assert not {FIELD, "add_generation_prompt", "is_continued"} & other.keys()
    assert body[FIELD] is True
    assert body["add_generation_prompt"] is False
    assert body["messages"][-1] == {"role": "assistant", "content": "Sure, here is"}


@pytest.mark.parametrize(
    ("support", "lacking"),
    [(Support.REFUSED, {"refuses": [FIELD]}), (Support.IGNORED, {"ignores": [FIELD]})],
)
def test_a_server_that_does_not_is_not_asked(
    support: Support, lacking: dict[str, Any]
) -> None:
    with FakeServer(**lacking) as server:
        client = Client(server.url, "fake")
        try_prefill(client)
        assert client.capabilities.prefill is support
        assert client.capabilities.as_words()["prefill"] == support
        (answer,) = answers(client, BEGUN)
        (plain,) = answers(client, BEGUN.original)
    assert isinstance(answer, Invalid)
    assert answer.reason is Reason.NO_PREFILL
    assert answer.detail == (
        "take the attack prefill out, or serve the candidate with vLLM: "
        f"{server.url}: continue_final_message is {support}"
    )
    assert not isinstance(plain, Invalid)
    assert len(server.requests) == 1


class Failing:
    """A server that fails with and without the field, as it is told to."""

    def __init__(self, **faults: EndpointError) -> None:
        self._faults = faults

    async def post(self, path: str, body: Any) -> Any:
        if fault := self._faults.get("continued" if FIELD in body else "whole"):
            raise fault
        choice = {"message": {"content": "a"}, "finish_reason": "length"}
        return {
            "choices": [choice],
            "usage": {"prompt_tokens": 19, "completion_tokens": 1},
        }


def tried(**faults: EndpointError) -> Support:
    client = Client("http://x/v1", "fake", transport=Failing(**faults))
    try_prefill(client)
    return client.capabilities.prefill


@pytest.mark.parametrize("request_", ["continued", "whole"])
@pytest.mark.parametrize(
    "fault", [TransientError("busy", 429), TransientError("late", attempts=2)], ids=str
)
def test_an_outage_says_nothing_of_what_a_server_can_do(
    request_: str, fault: EndpointError
) -> None:
    with pytest.raises(EndpointError, match=str(fault)):
        tried(**{request_: fault})


@pytest.mark.parametrize(
    "refusal", [EndpointError("no", 400), TransientError("broken", 500)]
)
def test_a_refusal_says_what_a_server_can_do(refusal: EndpointError) -> None:
    assert tried(continued=refusal) is Support.REFUSED
    assert tried(whole=refusal) is Support.YES, (
        "it takes such a message only to go on with it"
    )
    assert tried() is Support.IGNORED
