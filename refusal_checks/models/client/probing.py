"""Finds out what a server can do, with a few small requests at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from refusal_checks.core.errors import EndpointError
from refusal_checks.core.prompts import Message
from refusal_checks.models.client import usage
from refusal_checks.models.client.answers import written
from refusal_checks.models.client.capabilities import Capabilities, Support
from refusal_checks.models.client.client import CONTINUED, Client, RequestParams
from refusal_checks.models.client.http_errors import TransientError
from refusal_checks.models.client.usage import MALFORMED

QUESTION = "Name a colour, an animal and a number, as JSON."
"""A question with many possible answers, so that a seed makes a difference."""

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"colour": {"type": "string"}},
    "required": ["colour"],
    "additionalProperties": False,
}

BEGUN = "A colour, an animal and"
"""The beginning of an answer to it."""

TOKENS = 12
"""Most tokens of an answer that must differ from others; elsewhere one is enough."""

_BROKEN = 500
"""The status with which some servers refuse fields that they do not know."""

Choices = Sequence[Mapping[str, Any]]


async def probe(client: Client, options: RequestParams) -> Capabilities:
    """Find out what the client's server can do, with seven requests of a few tokens, all at once.

    A capability that cannot be tested, for example because the server is busy, counts as there.

    Args:
        client: open, and with all capabilities.
        options: those of the run; only temperature, top_p and top_k are used.

    Raises:
        EndpointError: the server does not answer chat completions at all.
    """
    plain = {"temperature": options.temperature, "top_p": options.top_p, "max_tokens": 1}
    hot = {**plain, "temperature": options.temperature or 1.0}
    form = {"response_format": RequestParams(schema=SCHEMA).body()["response_format"]}
    fault, *supports = await asyncio.gather(
        _fault(client, plain),
        _support(client, {**hot, "n": 2}, lambda choices: len(choices) == 2),
        _support(client, {**plain, "logprobs": True}, _has_logprobs),
        _support(client, {**plain, "max_tokens": TOKENS, **form}, _begins_an_object),
        _support(client, {**hot, "max_tokens": TOKENS, "seed": 1}, _are_equal, times=2),
        _support(client, {**plain, "top_k": options.top_k}, lambda choices: True),
    )
    if fault:
        raise fault
    return Capabilities(*supports)


def try_prefill(client: Client) -> None:
    """Find out if the client's server goes on with an answer that has begun.

    It is asked with and without ``continue_final_message``: a server that continues reads fewer
    tokens, because nothing marks the end of the message and the beginning of the next. The client's
    capabilities are updated. A server that says nothing of tokens counts as one that cannot.

    Raises:
        EndpointError: the server is busy or fails, which says nothing of what it can do.
    """

    async def ask() -> Support:
        async with client:
            return await _prefill(client)

    client.capabilities = replace(client.capabilities, prefill=asyncio.run(ask()))


async def _prefill(client: Client) -> Support:
    turns = (Message("user", QUESTION), Message("assistant", BEGUN))
    plain = {"max_tokens": 1, "temperature": 0.0}
    try:
        continued = await client.ask(turns, {**plain, **CONTINUED}, _prompt_tokens)
    except EndpointError as fault:
        _require_refusal(fault)
        return Support.REFUSED
    try:
        whole = await client.ask(turns, plain, _prompt_tokens)
    except EndpointError as fault:
        _require_refusal(fault)
        return Support.YES  # it takes such a message only to go on with it
    return Support.YES if continued != whole else Support.IGNORED


def _require_refusal(fault: EndpointError) -> None:
    """Raise the fault unless it is the server's answer to the request's fields."""
    if isinstance(fault, TransientError) and fault.status != _BROKEN:
        raise fault


def _prompt_tokens(response: Any) -> int:
    return usage.tokens(response)[0]


async def _fault(client: Client, fields: Mapping[str, Any]) -> EndpointError | None:
    try:
        await _ask(client, fields)
    except EndpointError as fault:
        return fault
    return None


async def _support(
    client: Client, fields: Mapping[str, Any], shows: Callable[..., bool], times: int = 1
) -> Support:
    """What a server does with the fields of a request; ``shows`` gets the answers to each."""
    try:
        answers = await asyncio.gather(*(_ask(client, fields) for _ in range(times)))
    except TransientError as fault:
        return Support.REFUSED if fault.status == _BROKEN else Support.YES
    except EndpointError:
        return Support.REFUSED
    try:
        return Support.YES if shows(*answers) else Support.IGNORED
    except MALFORMED:  # as it is nested too deeply to be compared
        return Support.IGNORED


async def _ask(client: Client, fields: Mapping[str, Any]) -> Choices:
    return await client.ask((Message("user", QUESTION),), fields, _read)


def _read(response: Any) -> Choices:
    choices = [dict(choice) for choice in response["choices"]]
    if not choices:
        raise LookupError("no choices")
    return [{**choice, "text": written(choice["message"])} for choice in choices]


def _has_logprobs(choices: Choices) -> bool:
    logprobs = choices[0].get("logprobs")
    return isinstance(logprobs, Mapping) and bool(logprobs.get("content"))


def _begins_an_object(choices: Choices) -> bool:
    """True if the (possibly truncated) answer is consistent with the schema."""
    text = choices[0]["text"].lstrip()
    return not text or text.startswith("{")


def _are_equal(first: Choices, second: Choices) -> bool:
    return [c["message"] for c in first] == [c["message"] for c in second]
