"""Tokens and tries, added up from what servers say."""

from __future__ import annotations

import asyncio
from typing import Any

from refusal_checks.core.prompts import Message
from refusal_checks.models.client.answers import Usage
from refusal_checks.models.client.client import Client, RequestParams
from tests.fake_server import FakeServer


def test_usage_adds_up() -> None:
    one, two = Usage(1, 2, 30, 10, 5, 1), Usage(2, 0, 40, 0, 6)
    assert one + two == Usage(3, 2, 70, 10, 11, 1)
    assert (one + two).computed == 60


def test_a_client_counts_what_the_server_reports_with_tries_and_failures() -> None:
    async def chat(url: str) -> Usage:
        async with Client(url, "fake") as client:
            for words in ("one two", "three"):
                await client.chat((Message("user", words),), RequestParams(n=2))
            return client.meter.usage

    with FakeServer(lambda body: ["a b", "c"], cached=1) as server:
        found = asyncio.run(chat(server.url))
    assert found == Usage(requests=2, retries=0, prompt=3, cached=2, output=6)


def test_one_answer_s_tokens_are_the_server_s_count_without_log_probabilities() -> None:
    async def chat(url: str, **settings: Any) -> list[int]:
        async with Client(url, "fake") as client:
            return [
                c.tokens
                for c in await client.chat((Message("user", "x"),), RequestParams(**settings))
            ]

    with FakeServer(lambda body: ["one two three"] * body["n"]) as server:
        assert asyncio.run(chat(server.url)) == [3]
        assert asyncio.run(chat(server.url, n=2, logprobs=True)) == [3, 3]
        assert asyncio.run(chat(server.url, n=2)) == [0, 0]
