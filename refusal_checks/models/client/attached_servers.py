"""Connect to servers that others run: find the model and the key, and send a first request."""

import asyncio
import os
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from refusal_checks.core.errors import EndpointError, ModelError
from refusal_checks.core.prompts import Message
from refusal_checks.core.sampling import SamplingBase
from refusal_checks.core.suggestions import suggest
from refusal_checks.core.text import replace_surrogates, sanitize
from refusal_checks.models.client.chat_replies import LEAST
from refusal_checks.models.client.classify import Classifier
from refusal_checks.models.client.client import Client, RequestParams
from refusal_checks.models.client.moderations import Moderator
from refusal_checks.models.client.server_errors import (
    ATTEMPTS_BUSY,
    MALFORMED,
    TransientError,
)
from refusal_checks.models.client.transport import ConnectionSettings, HttpTransport
from refusal_checks.models.client.usage import Usage
from refusal_checks.models.model_names import MODERATION, Attached

LISTED = 20  # most names of models that a message shows

QUESTION = "Say hello."

TIMEOUT = 20.0
"""Time limits in seconds for the list of models, and for the first request."""

SLOW = 2.0
"""After so many seconds, the user is told which server the run waits for."""

ATTEMPTS = 3
"""The most attempts at the first request."""


def attach(
    model: Attached,
    option: str,
    number: int,
    sampling: SamplingBase,
    connection: ConnectionSettings,
    say: Callable[[str], None],
) -> Client:
    """Return a client for a model, once its server has answered a question.

    Raises ModelError if the server cannot be reached, has no such model, or refuses the question.

    Args:
        number: counts the models of ``option`` from 1.
        say: is told of a server that is slow, or does not list the model.
    """
    where = f"{option} {MODERATION if model.moderates else ''}{model.url}"
    # A thread: this one waits for the server, and there is no event loop yet.
    waiting = threading.Timer(SLOW, say, [f"waiting for {where} to answer"])
    waiting.daemon = True
    waiting.start()
    try:
        client, listed = _attached(where, model, option, number, sampling, connection)
    finally:
        waiting.cancel()
    if listed and client.model not in listed:
        say(
            f"{where}#{client.model}: check the name: the server answers, but lists only "
            f"{_list_names(listed)}{suggest(client.model, listed)}"
        )
    return client


def _attached(
    where: str,
    model: Attached,
    option: str,
    number: int,
    sampling: SamplingBase,
    connection: ConnectionSettings,
) -> tuple[Client, Collection[str]]:
    """The client, and the models that its server lists."""
    connection = replace(
        connection, api_key=api_key(option, number), key_variable=_key_variable(option)
    )
    contexts: Mapping[str, int | None] = {}
    try:
        contexts = list_models(model.url, replace(connection, timeout=TIMEOUT))
    except EndpointError as fault:
        # A server may have no list of models.
        has_none = fault.status == 404 or (model.model and fault.status > 403)
        if not has_none:
            raise ModelError(f"{where}: {_explain(option, model, fault)}") from None
    name = choose_model(where, model.model, contexts)

    client = Client(model.url, name, options=model, connection=connection)
    client.context = contexts.get(name)
    client.attempts = ATTEMPTS  # the user waits at the terminal
    params = RequestParams.from_sampling(sampling)
    # With the run's own settings, so that a field which the server refuses shows now.
    params = replace(params, max_tokens=min(params.max_tokens, LEAST))
    try:
        asyncio.run(_greet(client, params, is_judge=option == "--judge"))
    except TimeoutError:
        pass  # it may be loading the model; the run waits longer, and says so
    except EndpointError as fault:
        why = _explain(option, model, fault)
        if contexts and name not in contexts:
            why = f"name one of its models ({_list_names(contexts)}): {why}"
        raise ModelError(f"{where}#{name}: {why}") from None
    client.attempts = ATTEMPTS_BUSY
    client.usage = Usage()  # the greeting is no part of what the run cost
    return client, contexts


async def _greet(client: Client, params: RequestParams, *, is_judge: bool) -> None:
    """Ask a client's server a question in the same way as the run will."""
    async with client, asyncio.timeout(TIMEOUT):
        if client.moderates:
            await Moderator(client).moderate(QUESTION)
            return
        try:
            await client.chat((Message("user", QUESTION),), params)
        except EndpointError as fault:
            if not is_judge or isinstance(fault, TransientError):
                raise
            # vLLM serves a sequence classifier without chat completions.
            try:
                await Classifier(client).classify(QUESTION)
            except EndpointError:
                raise fault from None  # the first says more: most servers have no /classify
            client.classifies = True


def _explain(option: str, model: Attached, fault: EndpointError) -> str:
    """What to do about a server that does not answer properly, and what it said."""
    role, status = option.lstrip("-"), fault.status
    said = str(fault).removeprefix(f"{model.url}: ")
    is_refusal = 400 <= status < 500 and status not in (401, 403, 429)
    if status == 200:
        do = (
            "name the URL of its API, which usually ends in /v1, or look into the server's log: "
            "its reply is not a model's answer"
        )
    elif isinstance(fault.__cause__, TimeoutError):
        do = "wait until the server has loaded its model, or correct the URL"
    elif isinstance(fault, TransientError) and status == 0:
        do = "start the server, or correct the URL: no server answers there"
    elif model.moderates and is_refusal:
        do = (
            f"check the URL, which usually ends in /v1, or leave out {MODERATION} if this is a "
            "chat model: the server has no moderation endpoint"
        )
        said = said[said.find("HTTP") :]
    elif model.template_kwargs and "chat_template_kwargs" in said:
        do = f"leave out {role}.template_variables: the server refuses them"
    elif said.startswith("HTTP 4"):
        do = (
            f"name another model, or change the settings of {role}: the server refuses chat "
            "completions"
        )
    else:
        return said  # it says what to do
    return f"{do}: {said}"


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


def _key_variable(option: str) -> str:
    return f"REFUSAL_CHECKS_{option.lstrip('-').upper()}_API_KEY"


def list_models(url: str, connection: ConnectionSettings) -> dict[str, int | None]:
    """The models that a server lists, each with its context length in tokens, if listed.

    Raises EndpointError without an answer of status 200; an answer of another form lists none.
    """

    async def fetch() -> Any:
        async with HttpTransport(url, connection) as server:
            return await server.request("GET", "/models")

    listed, contexts = asyncio.run(fetch()), {}
    try:
        for model in listed["data"]:
            name = model["id"]
            if not name or not isinstance(name, str):
                return {}
            context = model.get("max_model_len")  # vLLM's own; OpenAI lists none
            is_context = type(context) is int and context >= LEAST
            contexts[replace_surrogates(name)] = context if is_context else None
    except MALFORMED:
        return {}
    return contexts


def choose_model(where: str, model: str, listed: Collection[str]) -> str:
    """Choose the model to request: the one that the user named, else the only one listed."""
    if model:
        return model
    if len(listed) == 1:
        return next(iter(listed))
    hint = (
        "because the server lists no model; check the URL, too: it usually ends in /v1"
    )
    if listed:
        hint = f"one of: {_list_names(listed)}"
    raise ModelError(f"{where}: add #MODEL, {hint}")


def _list_names(names: Collection[str]) -> str:
    more = ["..."] if len(names) > LISTED else []
    return ", ".join([*(sanitize(name, 200) for name in islice(names, LISTED)), *more])
