"""What a server says of itself before it is asked for anything: its health, its models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import aiohttp

from refusal_checks.errors import ModelError
from refusal_checks.faults import error_words
from refusal_checks.transport import authorization, session

TIMEOUT = 20.0
"""Seconds for the list of models."""


def is_healthy(url: str, timeout: float = 2.0) -> bool:
    """Whether a vLLM server at ``url`` (``http://host:port``) answers its health check."""

    async def ask() -> bool:
        async with session(url, timeout) as own, own.get(f"{url}/health") as response:
            return response.status == 200

    try:
        return asyncio.run(ask())
    except (aiohttp.ClientError, TimeoutError):
        return False


def models(url: str, api_key: str | None, option: str) -> tuple[str, ...]:
    """The models that a server lists; none where it has no list.

    Args:
        option: the command-line option that named the server, for messages.

    Raises:
        ModelError: the server cannot be reached, or refuses the key.
    """
    return asyncio.run(_models(url, api_key, option))


async def _models(url: str, api_key: str | None, option: str) -> tuple[str, ...]:
    try:
        headers = authorization(api_key)
        async with (
            session(url, TIMEOUT) as own,
            own.get(f"{url}/models", headers=headers) as response,
        ):
            text = await response.text("utf-8", errors="replace")
            if response.status in (401, 403):
                said = f"HTTP {response.status}: {error_words(text)}"
                raise ModelError(f"{option} {url}: {wants_key(option)}: {said}")
            return tuple(str(model["id"]) for model in json.loads(text)["data"])
    except aiohttp.ClientSSLError as fault:
        raise ModelError(
            f"{option} {url}: {fault}; where the server's certificate is signed by an authority "
            "of your own, set SSL_CERT_FILE to that authority's certificate (PEM)"
        ) from None
    except (aiohttp.ClientError, TimeoutError) as fault:
        raise ModelError(
            f"{option} {url}: no OpenAI-compatible server answers there: "
            f"{str(fault) or type(fault).__name__}; is it running, and does the URL end in /v1?"
        ) from None
    except (LookupError, TypeError, ValueError):
        return ()


def choose(url: str, model: str, listed: Sequence[str], option: str) -> str:
    """The name of the model to ask for: the wanted one, else the only one that is listed.

    Raises:
        ModelError: none is wanted, and it is not one that is listed.
    """
    if model:
        return model
    if not listed:
        raise ModelError(
            f"{option} {url}: it lists no models: add #MODEL; does the URL end in /v1?"
        )
    if len(listed) != 1:
        raise ModelError(f"{option} {url}: add #MODEL, one of: {', '.join(listed)}")
    return listed[0]


def wants_key(option: str) -> str:
    """What is to be done where a server refuses the key that it was given, or none."""
    own = api_key_variable(option)
    return f"the server wants an API key; set {own} (or OPENAI_API_KEY) to a valid one"


def api_key_variable(option: str) -> str:
    """The environment variable with the API key for ``--candidate`` or ``--judge``."""
    return f"REFUSAL_CHECKS_{option.lstrip('-').upper()}_API_KEY"
