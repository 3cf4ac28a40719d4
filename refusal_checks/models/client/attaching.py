"""Connects to servers that others run: which model, which key, and what the server can do."""

import asyncio
import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from refusal_checks.core.errors import EndpointError, ModelError
from refusal_checks.core.sampling import JudgeSampling, Sampling
from refusal_checks.core.settings import Limits, RequestPace
from refusal_checks.core.text import clean, storable
from refusal_checks.models.client.classify import Classifier
from refusal_checks.models.client.client import Client, RequestParams
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
