"""Whatever a server replies: an answer that can be stored and shown, or an error of the server."""

import asyncio
import copy
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusal_checks.core.errors import EndpointError
from refusal_checks.core.prompts import Message
from refusal_checks.core.records import Completion
from refusal_checks.models.client import server_errors
from refusal_checks.models.client.client import CHAT, Client, RequestParams
from refusal_checks.models.client.label_probabilities import LabelProbabilities
from refusal_checks.models.client.server_errors import make_error

ASK = (Message("user", "so?"),)
TOKEN = {"token": "so", "logprob": -0.5, "bytes": [115, 111], "top_logprobs": []}
REPLY: dict[str, Any] = {
    "choices": [
        {
            "index": 0,
            "message": {
                "content": "<think>x</think>so",
                "reasoning": None,
                "refusal": None,
            },
            "finish_reason": "stop",
            "logprobs": {"content": [{**TOKEN, "top_logprobs": [TOKEN, TOKEN]}]},
        }
    ],
    "usage": {
        "prompt_tokens": 5,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 2},
    },
}
DEEP = json.loads("[" * 800 + "]" * 800)
ODD = [None, True, -1, 10**20, 10**400, 1e308, math.inf, -math.inf, math.nan, DEEP]
ODD += ["", "\ud800", "x" * 10_000, "abort", "\x1b]", "</think>", -5.0, 7.5, [300]]
TEXTS = st.text(st.characters(exclude_categories=()))
SCALARS = st.sampled_from(ODD) | st.integers() | st.floats() | TEXTS
VALUES = (
    SCALARS
    | st.lists(SCALARS, max_size=3)
    | st.dictionaries(TEXTS, SCALARS, max_size=3)
)


@st.composite
def replies(draw: st.DrawFn) -> Any:
    """A good reply with some of its parts, or all of it, replaced or removed."""
    whole = [copy.deepcopy(REPLY)]
    for _ in range(draw(st.integers(1, 3))):
        part: Any = whole
        while isinstance(part, dict | list) and part:
            parent, is_object = part, isinstance(part, dict)
            keys: Sequence[Any] = list(part) if is_object else range(len(part))
            key = draw(st.sampled_from(keys))
            part = parent[key] if draw(st.integers(0, 9)) else None
        value = draw(VALUES)
        parent[key] = copy.deepcopy(value)
        if value is None and is_object:
            del parent[key]
    return whole[0]


class Saying:
    """A transport that replies the same to everything."""

    def __init__(self, reply: Any) -> None:
        self._reply = reply

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._reply if path == CHAT else {"tokens": [7]}


@pytest.fixture(autouse=True, scope="module")
def _no_pauses() -> Any:
    async def go_on(seconds: float) -> None:
        assert 0 <= seconds <= 2 * server_errors.WAIT_ASKED

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server_errors, "sleep", go_on)
        yield


def ask(reply: Any, n: int = 1) -> tuple[Completion, ...]:
    client = Client("http://x/v1", "m", transport=Saying(reply))
    try:
        return asyncio.run(client.chat(ASK, RequestParams(n=n, logprobs=True)))
    finally:
        usage = client.usage
        assert 0 <= usage.cached <= usage.prompt < 10**12
        assert 0 <= usage.output < 10**12


@settings(max_examples=200, deadline=None)
@given(replies())
def test_an_answer_can_be_stored_or_the_server_is_at_fault(reply: Any) -> None:
    try:
        (choice,) = ask(reply)
    except EndpointError as fault:
        said = str(fault)
    else:
        said = choice.finish_reason
        assert isinstance(choice.text, str)
        assert 0 <= choice.tokens < 10**12
        assert choice.mean_logprob is None or -math.inf < choice.mean_logprob <= 0
        assert len(choice.finish_reason) <= 64
    assert isinstance(said.encode(), bytes)  # no lone surrogate
    assert len(said) < 1000


@settings(max_examples=100, deadline=None)
@given(replies())
def test_labels_have_probabilities_or_the_server_is_at_fault(reply: Any) -> None:
    client = Client("http://x/v1", "m", transport=Saying(reply))
    try:
        found: LabelProbabilities = asyncio.run(
            client.label_probabilities(ASK, ("0", "1"))
        )
    except EndpointError as fault:
        words = str(fault)
    else:
        words = "none"
        assert math.isclose(sum(found.probabilities.values()), 1)
        assert 0 <= found.outside <= 1
    assert 0 < len(words.encode()) < 2000


@given(TEXTS | VALUES.map(json.dumps))
def test_the_words_of_an_error_are_bounded(text: str) -> None:
    for status in (400, 429, 500):
        said = str(make_error("http://x/v1", status, text, text))
        assert isinstance(said.encode(), bytes)  # no lone surrogate
        assert len(said) < 600
