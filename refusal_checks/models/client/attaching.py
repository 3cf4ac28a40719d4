"""Connect to servers that others run: find the model, the key, and what the server can do."""

import asyncio
import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from refusal_checks.core.errors import EndpointError, ModelError
from refusal_checks.core.sampling import JudgeSampling, Sampling, SamplingBase
from refusal_checks.core.settings import Limits, RequestPace
from refusal_checks.core.text import clean, storable
from refusal_checks.models.client.classify import Classifier
from refusal_checks.models.client.client import CHAT, Client, RequestParams
from refusal_checks.models.client.moderation import MODERATIONS, Moderator
from refusal_checks.models.client.probing import QUESTION, probe
from refusal_checks.models.client.server_errors import MALFORMED, TransientError
from refusal_checks.models.client.token_limits import LEAST
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
    """Connects to the servers of one run, and probes each of them once."""

    limits: Limits
    sampling: Sampling
    judge_sampling: JudgeSampling
    paces: Mapping[str, RequestPace] = field(default_factory=dict)  # by role
    _probed: dict[tuple[str, ...], Client] = field(default_factory=dict)

    def connect(self, model: Attached, option: str, number: int) -> Client:
        """Return a client for a model, once its server has answered.

        Raises ModelError if the server has no such model, or refuses the run's requests.
        """
        key = api_key(option, number)
        contexts = list_contexts(model.url, key, option)
        name = choose(model.url, model.model, contexts, option)
        access = Access(
            key,
            self.limits.request_timeout,
            self.paces.get(option.lstrip("-"), RequestPace()),
            self.limits.max_reply_mib * 2**20,
            self.limits.outage_timeout,
        )

        template = json.dumps(model.template_kwargs, default=str)
        asked = MODERATIONS if model.moderates else CHAT
        identity = (model.url, name, key, option, asked, template)
        if identity not in self._probed:
            short = replace(access, timeout=min(access.timeout, PROBE_TIMEOUT))
            probed = Client(model.url, name, extras=model, access=short)
            if model.moderates:
                _try_moderation(probed, option, contexts)
            else:
                self._probe(probed, model, option, contexts)
            self._probed[identity] = probed
        probed = self._probed[identity]

        client = Client(model.url, name, extras=model, access=access)
        client.classifies = probed.classifies
        client.capabilities = probed.capabilities
        client.answered = probed.answered
        client.categories = probed.categories
        client.is_listed = not contexts or name in contexts
        client.context = contexts.get(name)
        return client

    def _probe(
        self,
        client: Client,
        model: Attached,
        option: str,
        contexts: Mapping[str, int | None],
    ) -> None:
        """Find out what a server can do; ModelError if it gives neither answers nor labels."""
        sampling: SamplingBase = self.judge_sampling
        if option == "--candidate":
            sampling = self.sampling
        try:
            params = RequestParams.of(sampling)
            client.capabilities = asyncio.run(probe(client, params))
        except EndpointError as fault:
            if option == "--judge":
                client.classifies = asyncio.run(_classifies(client))
            if not client.classifies:
                why = _why_no_chat(fault, client.model, model, option, contexts)
                raise ModelError(
                    f"{option} {model.url}#{client.model}: {why}"
                ) from None


def _why_no_chat(
    fault: EndpointError,
    name: str,
    model: Attached,
    option: str,
    contexts: Mapping[str, int | None],
) -> str:
    """Why a server gives no chat completion, as far as its error and list of models tell."""
    if fault.status in (401, 403):
        return f"{_wants_key(option)}: {fault}"
    if contexts and name not in contexts:
        return f"the server has no such model; it has: {_some(contexts)} ({fault})"
    variables = ""
    if model.template_kwargs:
        variables = f" (with {option.lstrip('-')}.template_variables)"
    hint = "does its URL end in /v1?"
    if model.url.endswith("/v1"):
        hint = "name a model for chat completions"
    return f"the server gives no chat completion{variables}: {fault}; {hint}"


def _try_moderation(client: Client, option: str, listed: Collection[str]) -> None:
    """Raise ModelError unless the client's server moderates a text."""

    async def ask() -> None:
        async with client:
            await Moderator(client).moderate(QUESTION)

    try:
        asyncio.run(ask())
    except EndpointError as fault:
        if fault.status in (401, 403):
            why = f"{_wants_key(option)}: {fault}"
        elif listed and client.model not in listed:
            why = f"the server has no such model; it has: {_some(listed)} ({fault})"
        else:
            why = (
                f"the server moderates no text: {fault}; does its URL end in /v1, and has it "
                f"{MODERATIONS}?"
            )
        raise ModelError(f"{option} {client.url}#{client.model}: {why}") from None


async def _classifies(client: Client) -> bool:
    """Find out whether the client's server classifies text; the client must not be open yet."""
    async with client:
        try:
            await Classifier(client).classify(QUESTION)
        except EndpointError:
            return False
    return True


def api_key(option: str, number: int) -> str:
    """A server's API key, from the variable of the numbered model, of the option, or OpenAI's."""
    shared = _key_variable(option)
    numbered = shared.replace("_API_KEY", f"_{number}_API_KEY")
    for name in (numbered, shared, "OPENAI_API_KEY"):
        # A key that was read from a file often ends in a line feed.
        key = os.environ.get(name, "").strip()
        if not key:
            continue
        if not key.isprintable():
            raise ModelError(f"{option}: the key in {name} has unprintable characters")
        return key
    return ""


def list_contexts(url: str, api_key: str, option: str) -> dict[str, int | None]:
    """The models that a server lists, each with its context length in tokens, if listed."""

    async def fetch() -> Any:
        async with HttpTransport(url, Access(api_key, LIST_TIMEOUT)) as server:
            return await server.request("GET", "/models")

    try:
        contexts = {}
        for model in asyncio.run(fetch())["data"]:
            name = model["id"]
            if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
                raise ValueError("no name of a model")
            contexts[storable(name)] = listed_context(model)
        return contexts
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
    """The context length that a server lists for a model; None if it lists none."""
    places = [model]
    if isinstance(model.get("meta"), Mapping):
        places.append(model["meta"])
    for place in places:
        for name in _LISTED:
            value = place.get(name)
            if type(value) is int and value >= LEAST:
                return value
    return None


def choose(url: str, model: str, listed: Collection[str], option: str) -> str:
    """Choose the model to request: the one that the user named, else the only one listed."""
    if model:
        return model
    if len(listed) == 1:
        return next(iter(listed))
    hint = "because the server lists none; does the URL end in /v1?"
    if listed:
        hint = f"one of: {_some(listed)}"
    raise ModelError(f"{option} {url}: add #MODEL, {hint}")


def _some(names: Collection[str]) -> str:
    shown = ", ".join(clean(name, LONGEST_NAME) for name in islice(names, LISTED))
    if len(names) <= LISTED:
        return shown
    return f"{shown} and {len(names) - LISTED} more"


def _wants_key(option: str) -> str:
    variable = _key_variable(option)
    return (
        f"set {variable} (or OPENAI_API_KEY) to a valid API key: the server wants one"
    )


def _key_variable(option: str) -> str:
    return f"REFUSAL_CHECKS_{option.lstrip('-').upper()}_API_KEY"
