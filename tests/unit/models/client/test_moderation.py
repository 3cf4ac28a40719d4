"""What moderation endpoints answer: published forms, and broken ones, which say nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from refusal_checks.core.errors import EndpointError
from refusal_checks.models.client.client import Client
from refusal_checks.models.client.moderations import ModerationResult, Moderator
from tests.support.fake_server import FakeServer

CATEGORIES = {"violence": True, "illicit": True, "hate": False}
OPENAI = {"flagged": True, "categories": CATEGORIES}
HARMLESS = {"flagged": False, "categories": dict.fromkeys(CATEGORIES, False)}


def result(**changes: Any) -> dict[str, Any]:
    """A reply with one result: OpenAI's, with these changes; ``...`` leaves a field out."""
    kept = {k: value for k, value in (OPENAI | changes).items() if value is not ...}
    return {"id": "m", "model": "fake", "results": [kept]}


def asked(*replies: Any) -> ModerationResult:
    """What the last of several texts is, by an endpoint with these replies in turn."""
    given = iter(replies)

    async def ask(url: str) -> ModerationResult:
        moderator = Moderator(client := Client(url, "fake"))
        async with client:
            for _ in replies:
                found = await moderator.moderate("text")
            return found

    with FakeServer(moderate=lambda text: next(given, replies[-1])) as server:
        return asyncio.run(ask(server.url))


@pytest.mark.parametrize(
    ("reply", "flagged"),
    [
        (result(), ["violence", "illicit"]),
        ({"results": [HARMLESS]}, []),
        # Mistral's has no flagged.
        (result(flagged=...), ["violence", "illicit"]),
        ({"results": [{"categories": {"pii": False}}]}, []),
        # A category that the endpoint cannot tell.
        (result(categories=CATEGORIES | {"illicit": None}), ["violence"]),
    ],
)
def test_the_categories_of_a_text(reply: Any, flagged: list[str]) -> None:
    assert asked(reply).flagged == flagged


BROKEN: dict[str, Any] = {
    "error": {"error": {"message": "overloaded"}, **result()},
    "error alone": {"results": None, "error": {"message": "overloaded"}},
    "no results": {"results": []},
    "two results": {"results": [HARMLESS, HARMLESS]},
    "no categories": result(categories=..., flagged=False),
    "empty categories": result(categories={}, flagged=False),
    "unknown categories": result(categories=dict.fromkeys(CATEGORIES), flagged=False),
    "flagged without a category": result(categories=dict.fromkeys(CATEGORIES, False)),
    "a category that is not flagged": result(flagged=False),
    "flagged in words": result(flagged="false"),
    "a number as category": result(categories={"violence": 0.2}, flagged=False),
}


@pytest.mark.parametrize("reply", BROKEN.values(), ids=BROKEN)
def test_what_is_missing_or_contradicts_itself_says_nothing(reply: Any) -> None:
    with pytest.raises(EndpointError, match="malformed answer of the server"):
        asked(reply)


def test_a_category_that_was_there_before_must_stay() -> None:
    fewer = result(categories={"hate": False}, flagged=False)
    with pytest.raises(EndpointError, match="categories are missing: illicit, viol"):
        asked(result(), fewer)
    more = result(categories=CATEGORIES | {"spam": True})
    assert asked(fewer, more).flagged == ["violence", "illicit", "spam"]
