"""Find out what a server can do, with a few small requests."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from refusal_checks.core.errors import EndpointError
from refusal_checks.core.prompts import Message
from refusal_checks.models.client.capabilities import Capabilities, Support
from refusal_checks.models.client.client import Client, RequestParams
from refusal_checks.models.client.reasoning import written
from refusal_checks.models.client.server_errors import MALFORMED, TransientError

QUESTION = "Name a colour, an animal and a number, as JSON."
"""A question with many possible answers, so that a seed makes a difference."""


SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"colour": {"type": "string"}},
    "required": ["colour"],
    "additionalProperties": False,
}


BEGUN = "A colour, an animal and"  # the beginning of an answer to it


TOKENS = 12
"""Most tokens of an answer that must differ from others; elsewhere one is enough."""


ROOM = 4096  # most tokens at a server that refuses so few, perhaps because its model reasons first


_BROKEN = 500  # the status with which some servers refuse fields that they do not know


Choices = Sequence[Mapping[str, Any]]


async def probe(client: Client, options: RequestParams) -> Capabilities:
    """Find out what the client's server can do, with nine small requests, sent at once.

    If it refuses the plainest request, each of the run's settings is tried, and then its other
    capabilities. A capability that cannot be tested, for example because the server is busy, counts
    as present. The client must have all capabilities and must not be open. EndpointError means that
    the server gives no chat completions at all.
    """
    async with client:
        try:
            return await _tried(client, options)
        except EndpointError as fault:
            room = await _settle(client, options, fault)
            return await _tried(client, options, room, max(room, TOKENS))


async def _settle(client: Client, options: RequestParams, fault: EndpointError) -> int:
    """Leave out the settings that the client's server refuses, one after the other.

    The wording of refusals decides nothing, since every server has its own. A setting is tried
    together with those accepted before it: some servers take each of two settings but not both.
    Returns the token limit that small requests need; raises ``fault`` if the server refuses even a
    request without settings.
    """
    if not _is_refusal(fault) or fault.status in (401, 403):
        raise fault
    usual = client.capabilities
    renamed = replace(usual, max_tokens=Support.REFUSED)
    for capabilities, room in ((usual, 1), (usual, ROOM), (renamed, ROOM)):
        client.capabilities = capabilities
        support = await _support(client, {"max_tokens": room}, lambda choices: True)
        if support is Support.YES:
            break
    else:
        raise fault
    kept: dict[str, Any] = {"max_tokens": room}
    refused = set()
    for name, value in options.settings.items():
        trial = {**kept, name: value}
        if await _support(client, trial, lambda choices: True) is Support.REFUSED:
            refused.add(name)
        else:
            kept = trial
    client.capabilities = replace(client.capabilities, refused=frozenset(refused))
    return room


async def _tried(
    client: Client, options: RequestParams, few: int = 1, some: int = TOKENS
) -> Capabilities:
    """Probe a server that accepts ``few`` and ``some`` as token limits.

    Raises EndpointError if the server refuses the run's settings.
    """
    plain = {
        "temperature": options.temperature,
        "top_p": options.top_p,
        "max_tokens": few,
    }
    hot = {**plain, "temperature": options.temperature or 1.0}
    form = {"response_format": RequestParams(schema=SCHEMA).body["response_format"]}

    def begins_an_object(choices: Choices) -> bool:
        text = choices[0]["text"].lstrip()  # truncated, perhaps
        return not text or text.startswith("{")

    def are_equal(first: Choices, second: Choices) -> bool:
        return [c["message"] for c in first] == [c["message"] for c in second]

    basic = asyncio.create_task(_ask(client, {**options.settings, "max_tokens": few}))
    n, logprobs, structured_outputs, seed, top_k, token_ids = await asyncio.gather(
        _support(client, {**hot, "n": 2}, lambda choices: len(choices) == 2),
        _support(
            client, {**plain, "logprobs": True}, lambda c: c[0]["logprobs"]["content"]
        ),
        _support(client, {**plain, "max_tokens": some, **form}, begins_an_object),
        _support(client, {**hot, "max_tokens": some, "seed": 1}, are_equal, times=2),
        _support(client, {**plain, "top_k": options.top_k}, lambda choices: True),
        _support(
            client, {**plain, "return_token_ids": True}, lambda c: c[0]["token_ids"]
        ),
    )
    await basic
    return replace(
        client.capabilities,
        n=n,
        logprobs=logprobs,
        structured_outputs=structured_outputs,
        seed=seed,
        top_k=top_k,
        token_ids=token_ids,
    )


async def _support(
    client: Client,
    fields: Mapping[str, Any],
    shows: Callable[..., bool],
    times: int = 1,
) -> Support:
    """What a server does with request fields; ``shows`` gets the answers to each request."""
    try:
        answers = await asyncio.gather(*(_ask(client, fields) for _ in range(times)))
        return Support.YES if shows(*answers) else Support.IGNORED
    except EndpointError as fault:
        return Support.REFUSED if _is_refusal(fault) else Support.YES
    except MALFORMED:  # as it is nested too deeply to be compared
        return Support.IGNORED


async def _ask(client: Client, fields: Mapping[str, Any]) -> Choices:
    def read(response: Any) -> Choices:
        choices = []
        for choice in response["choices"]:
            choices.append({**choice, "text": written(choice["message"])})
        if not choices:
            raise LookupError("no choices")
        return choices

    return await client.ask((Message("user", QUESTION),), fields, read)


def _is_refusal(fault: EndpointError) -> bool:
    """True if the error means that the server refuses the request's fields."""
    return not isinstance(fault, TransientError) or fault.status == _BROKEN
