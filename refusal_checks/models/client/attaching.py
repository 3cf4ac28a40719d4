"""Connects to servers that others run: which model, which key, and what the server can do."""

import asyncio
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from refusal_checks.core.errors import EndpointError, ModelError
from refusal_checks.core.prompts import Message
from refusal_checks.core.records import Completion
from refusal_checks.core.settings import JudgeSampling, Limits, RequestPace, Sampling
from refusal_checks.core.text import clean, storable
from refusal_checks.models.client.answers import (
    MALFORMED,
    label_fields,
    read_first_tokens,
    tokens,
    written,
)
from refusal_checks.models.client.capabilities import Capabilities, Support
from refusal_checks.models.client.classify import Classifier
from refusal_checks.models.client.client import CONTINUED, Client, RequestParams
from refusal_checks.models.client.server_errors import LEAST, TransientError
from refusal_checks.models.client.transport import Access, HttpTransport
from refusal_checks.models.names import Attached

LIST_TIMEOUT = 20.0  # seconds for a server's list of models
LONGEST_NAME = 512  # characters of a model's name, above which a list of models is none
LISTED = 20  # most names of models that a message shows

PROBE_TIMEOUT = 60.0
"""Most seconds for one of the small requests that find out what a server can do."""

_LISTED = (
    "max_model_len",  # vLLM, SGLang
    "loaded_context_length",  # LM Studio
    "max_context_length",  # Mistral
    "context_window",  # Groq
    "context_length",  # OpenRouter, Together
    "n_ctx",  # llama.cpp, in "meta"
)
"""Names under which servers' lists of models give a context."""


@dataclass
class Attaching:
    """Connects to the servers of one run, and finds out once what each can do."""

    limits: Limits
    sampling: Sampling
    judge_sampling: JudgeSampling
    paces: Mapping[str, RequestPace] = field(default_factory=dict)  # by role
    _probed: dict[tuple[str, ...], Client] = field(default_factory=dict)

    def connect(self, model: Attached, option: str, number: int) -> Client:
        key, limits = api_key(option, number), self.limits
        contexts = list_contexts(model.url, key, option)
        name = choose(model.url, model.model, contexts, option)
        most, pace = (
            limits.max_reply_mib * 2**20,
            self.paces.get(option.lstrip("-"), RequestPace()),
        )
        access = Access(key, limits.request_timeout, pace, most, limits.outage_timeout)
        client = Client(model.url, name, extras=model, access=access)
        known = (
            model.url,
            name,
            key,
            option,
            json.dumps(model.template_kwargs, default=str),
        )
        if known not in self._probed:
            brief = replace(access, timeout=min(access.timeout, PROBE_TIMEOUT))
            sampling = self.sampling if option == "--candidate" else self.judge_sampling
            probed = Client(model.url, name, extras=model, access=brief)
            try:
                probed.capabilities = asyncio.run(
                    probe(probed, RequestParams.of(sampling))
                )
            except EndpointError as fault:
                probed.classifies = option == "--judge" and asyncio.run(
                    _classifies(probed)
                )
                if not probed.classifies:
                    role, kwargs = option.lstrip("-"), ""
                    if model.template_kwargs:
                        kwargs = f" (with {role}.template_variables)"
                    hint = "; does its URL end in /v1?"
                    if model.url.endswith("/v1"):
                        hint = "; name a model for chat completions"
                    why = f"the server gives no chat completion{kwargs}: {fault}{hint}"
                    if fault.status in (401, 403):
                        why = f"{_wants_key(option)}: {fault}"
                    elif contexts and name not in contexts:
                        why = f"the server has no such model; it has: {_some(contexts)} ({fault})"
                    raise ModelError(f"{option} {model.url}#{name}: {why}") from None
            self._probed[known] = probed
        probed = self._probed[known]
        client.classifies, client.capabilities = probed.classifies, probed.capabilities
        client.answered = probed.answered
        client.is_listed = not contexts or name in contexts
        client.context = contexts.get(name)
        return client


async def _classifies(client: Client) -> bool:
    """True if the client's server gives labels for a text; it is not open."""
    async with client:
        try:
            await Classifier(client).classify(QUESTION)
        except EndpointError:
            return False
    return True


def api_key(option: str, number: int) -> str:
    """The key for a server: the numbered model's own, the option's, or OpenAI's variable."""
    shared = _key_variable(option)
    numbered = shared.replace("_API_KEY", f"_{number}_API_KEY")
    for name in (numbered, shared, "OPENAI_API_KEY"):
        # A key that was read from a file often ends in a line feed.
        if key := os.environ.get(name, "").strip():
            if not key.isprintable():
                raise ModelError(
                    f"{option}: the key in {name} has unprintable characters"
                )
            return key
    return ""


def list_contexts(url: str, api_key: str, option: str) -> dict[str, int | None]:
    """The models that a server lists, each with its context in tokens if the list says so."""

    async def fetch() -> Any:
        async with HttpTransport(url, Access(api_key, LIST_TIMEOUT)) as server:
            return await server.request("GET", "/models")

    try:
        listed = {
            model["id"]: listed_context(model) for model in asyncio.run(fetch())["data"]
        }
        if not all(
            isinstance(name, str) and 0 < len(name) <= LONGEST_NAME for name in listed
        ):
            raise ValueError("no name of a model")
        return {storable(name): context for name, context in listed.items()}
    except MALFORMED:
        return {}
    except EndpointError as fault:
        if fault.status in (401, 403):
            raise ModelError(f"{option} {url}: {_wants_key(option)}: {fault}") from None
        if fault.status and fault.status not in (301, 302, 303, 307, 308):
            return {}  # it answers, with something else
        if not isinstance(fault, TransientError):
            raise ModelError(f"{option} {fault}") from None
        raise ModelError(
            f"{option} {url}: no OpenAI-compatible server answers there: "
            f"{str(fault).removeprefix(f'{url}: ')}; is it running, and does the URL end in /v1?"
        ) from None


def listed_context(model: Mapping[str, Any]) -> int | None:
    """The context that a server's list gives for a model; None if it gives none."""
    meta = model.get("meta")
    for place in (model, meta if isinstance(meta, Mapping) else {}):
        for name in _LISTED:
            value = place.get(name)
            if type(value) is int and value >= LEAST:
                return value
    return None


def choose(url: str, model: str, listed: Collection[str], option: str) -> str:
    """The name of the model to ask for: the wanted one, else the only one that is listed."""
    if model or len(listed) == 1:
        return model or next(iter(listed))
    none = "because the server lists none; does the URL end in /v1?"
    hint = f"one of: {_some(listed)}" if listed else none
    raise ModelError(f"{option} {url}: add #MODEL, {hint}")


def _some(names: Collection[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(clean(name, LONGEST_NAME) for name in islice(names, LISTED)) + more


def _wants_key(option: str) -> str:
    variable = _key_variable(option)
    return f"the server wants an API key; set {variable} (or OPENAI_API_KEY) to a valid one"


def _key_variable(option: str) -> str:
    return f"REFUSAL_CHECKS_{option.lstrip('-').upper()}_API_KEY"


QUESTION = "Name a colour, an animal and a number, as JSON."
"""A question with many possible answers, so that a seed makes a difference."""

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"colour": {"type": "string"}},
    "required": ["colour"],
    "additionalProperties": False,
}

BEGUN = "A colour, an animal and"  # the beginning of an answer to it
TOKENS = (
    12  # most tokens of an answer that must differ from others; elsewhere one is enough
)
ROOM = 4096  # most tokens at a server that refuses so few, perhaps because its model reasons first
_BROKEN = 500  # the status with which some servers refuse fields that they do not know

_NOISE = 0.2
"""Difference of the mean log-probabilities of a few tokens, read at once and one by one, that
rounding may make, also of quantised weights."""

Choices = Sequence[Mapping[str, Any]]


async def probe(client: Client, options: RequestParams) -> Capabilities:
    """Find out what the client's server can do, with eleven small requests, nearly at once.

    If it refuses the plainest of them, it is asked which of the run's settings it takes, and then
    what else it can do. A capability that cannot be tested, for example because the server is busy,
    counts as there. The client has all capabilities and is not open; an EndpointError says that it
    has no chat at all.
    """
    async with client:
        try:
            return await _tried(client, options)
        except EndpointError as fault:
            room = await _settle(client, options, fault)
            return await _tried(client, options, room, max(room, TOKENS))


async def _settle(client: Client, options: RequestParams, fault: EndpointError) -> int:
    """Leave out what the client's server refuses, one setting after the other.

    The words of the refusals decide nothing, because every server has its own. A setting is tried
    with those before it that are taken: some servers refuse a pair of which they take each.
    Returns how many tokens a small request has to ask for; raises ``fault`` if even a request
    without any setting is refused.
    """
    if not _is_refusal(fault) or fault.status in (401, 403):
        raise fault
    usual = client.capabilities
    renamed = replace(usual, max_tokens=Support.REFUSED)
    for capabilities, room in ((usual, 1), (usual, ROOM), (renamed, ROOM)):
        client.capabilities = capabilities
        if (
            await _support(client, {"max_tokens": room}, lambda choices: True)
            is Support.YES
        ):
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
    """The capabilities of a server that takes ``few`` and ``some`` as limits of an answer.

    Raises EndpointError if the server refuses the settings of the run that the client sends.
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
    n, logprobs, structured_outputs, seed, top_k, first_tokens = await asyncio.gather(
        _support(client, {**hot, "n": 2}, lambda choices: len(choices) == 2),
        _support(
            client, {**plain, "logprobs": True}, lambda c: c[0]["logprobs"]["content"]
        ),
        _support(client, {**plain, "max_tokens": some, **form}, begins_an_object),
        _support(client, {**hot, "max_tokens": some, "seed": 1}, are_equal, times=2),
        _support(client, {**plain, "top_k": options.top_k}, lambda choices: True),
        _support(
            client, label_fields(None), lambda c: len(read_first_tokens(c[0])) > 1
        ),
    )
    await basic
    client.capabilities = replace(
        client.capabilities,
        n=n,
        logprobs=logprobs,
        structured_outputs=structured_outputs,
        seed=seed,
        top_k=top_k,
        first_tokens=first_tokens,
    )
    scoring = await _scores(client, replace(options, max_tokens=some))
    return replace(client.capabilities, scoring=scoring)


async def _scores(client: Client, options: RequestParams) -> Support:
    """What a server does that is asked for log-probabilities afterwards.

    They have to be those that it gives while it writes: some give these after temperature and
    top_p (vLLM: ``--logprobs-mode``). A server that cannot be tested counts as one without.
    """
    asked = replace(options, n=1, logprobs=True, return_token_ids=True)
    turns = (Message("user", QUESTION),)
    try:
        (choice,) = await client.chat(turns, asked)
        if choice.mean_logprob is None or not choice.token_ids:
            return Support.IGNORED
        answer = Completion(
            choice.text, token_ids=choice.token_ids, reasoning=choice.reasoning
        )
        (mean,) = await client.weigh(turns, [answer], is_continued=False)
    except (EndpointError, *MALFORMED):
        return Support.REFUSED
    is_same = mean is not None and abs(mean - choice.mean_logprob) < _NOISE
    return Support.YES if is_same else Support.IGNORED


async def _support(
    client: Client,
    fields: Mapping[str, Any],
    shows: Callable[..., bool],
    times: int = 1,
) -> Support:
    """What a server does with the fields of a request; ``shows`` gets the answers to each."""
    try:
        answers = await asyncio.gather(*(_ask(client, fields) for _ in range(times)))
        return Support.YES if shows(*answers) else Support.IGNORED
    except EndpointError as fault:
        return Support.REFUSED if _is_refusal(fault) else Support.YES
    except MALFORMED:  # as it is nested too deeply to be compared
        return Support.IGNORED


async def _ask(client: Client, fields: Mapping[str, Any]) -> Choices:
    def read(response: Any) -> Choices:
        choices = [dict(choice) for choice in response["choices"]]
        if not choices:
            raise LookupError("no choices")
        return [{**choice, "text": written(choice["message"])} for choice in choices]

    return await client.ask((Message("user", QUESTION),), fields, read)


def _is_refusal(fault: EndpointError) -> bool:
    """True if it is the server's answer to the request's fields."""
    return not isinstance(fault, TransientError) or fault.status == _BROKEN


def try_prefill(client: Client) -> None:
    """Find out if the client's server goes on with an answer that has begun.

    It is asked with and without ``continue_final_message``: a server that continues reads fewer
    tokens, because nothing marks the end of the message and the beginning of the next. The client's
    capabilities are updated. A server that says nothing of tokens counts as one that cannot; one
    that is busy or fails says nothing of what it can do, and raises EndpointError.
    """
    turns = (Message("user", QUESTION), Message("assistant", BEGUN))

    async def prompt_tokens(fields: Mapping[str, Any]) -> int | None:
        """None if the server refuses the request."""
        brief = {"max_tokens": 1, "temperature": 0.0, **fields}
        try:
            return await client.ask(turns, brief, lambda response: tokens(response)[0])
        except EndpointError as fault:
            if not _is_refusal(fault):
                raise
            return None

    async def support() -> Support:
        async with client:
            continued = await prompt_tokens(CONTINUED)
            if continued is None:
                return Support.REFUSED
            # One that refuses the message without the field takes it only to go on with it.
            return (
                Support.IGNORED if continued == await prompt_tokens({}) else Support.YES
            )

    client.capabilities = replace(client.capabilities, prefill=asyncio.run(support()))
