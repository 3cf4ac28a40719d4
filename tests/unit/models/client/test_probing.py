"""What a server is found to be able to do, by asking one that can do so much."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from refusal_checks.core.errors import EndpointError
from refusal_checks.models.client import errors
from refusal_checks.models.client.attaching import TOKENS, probe
from refusal_checks.models.client.capabilities import ALL, CONSEQUENCES, Capabilities, Support
from refusal_checks.models.client.client import Client, RequestParams
from tests.fake_server import FakeServer

FIELDS = {
    "n": "n",
    "logprobs": "logprobs",
    "structured_outputs": "response_format",
    "seed": "seed",
    "top_k": "top_k",
}
"""The field of a request by capability."""


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "WAIT_INITIAL", 0.01)


def found(server: FakeServer, **options: Any) -> Capabilities:
    async def ask() -> Capabilities:
        async with Client(server.url, "fake") as client:
            return await probe(client, RequestParams(**options))

    return asyncio.run(ask())


def test_a_server_that_can_do_all() -> None:
    with FakeServer() as server:
        assert found(server) == ALL
    assert len(server.probes) == 7
    assert max(body["max_tokens"] for body in server.probes) == TOKENS
    assert server.requests == []


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_that_is_refused(name: str) -> None:
    with FakeServer(refuses=[FIELDS[name]]) as server:
        assert found(server) == Capabilities(**{name: Support.REFUSED})


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "top_k"])
def test_a_field_that_is_overlooked(name: str) -> None:
    with FakeServer(ignores=[FIELDS[name]]) as server:
        assert found(server) == Capabilities(**{name: Support.IGNORED})


def test_a_server_that_breaks_on_a_field_refuses_it() -> None:
    with FakeServer(no_schemas=500) as server:
        assert found(server) == Capabilities(structured_outputs=Support.REFUSED)


def test_what_a_busy_server_does_not_tell_counts_as_there() -> None:
    with FakeServer(no_schemas=503) as server:
        assert found(server) == ALL


def test_the_run_s_own_sampling_is_tried() -> None:
    with FakeServer() as server:
        found(server, temperature=0.6, top_p=0.95, top_k=20)
        assert {(body["temperature"], body["top_p"]) for body in server.probes} == {(0.6, 0.95)}
        assert [body["top_k"] for body in server.probes if "top_k" in body] == [20]
        server.probes.clear()
        found(server, temperature=0.0)
    (drawn,) = {body["temperature"] for body in server.probes if "seed" in body}
    assert drawn > 0, "a greedy answer comes back without a seed"


@pytest.mark.parametrize("field", ["messages", "max_tokens"])
def test_a_server_without_chat_is_no_server(field: str) -> None:
    with FakeServer(refuses=[field]) as server, pytest.raises(EndpointError, match=field):
        found(server)


def test_what_is_missing_is_left_out_of_requests_and_means_something() -> None:
    nothing = Capabilities(*[Support.REFUSED] * 5)
    assert nothing.left_out == set(FIELDS.values())
    assert ALL.left_out == set()
    assert set(nothing.missing(*CONSEQUENCES)) == set(FIELDS)
    assert set(CONSEQUENCES) - set(FIELDS) == {"prefill"}  # tried only where it is needed
    assert nothing.missing() == ALL.missing(*CONSEQUENCES) == {}
