"""What a server says of itself before it is asked for anything: its health, its models."""

from __future__ import annotations

import asyncio

import aiohttp

from refusal_checks.errors import ModelError


def is_healthy(url: str, timeout: float = 2.0) -> bool:
    """Whether a vLLM server at ``url`` (``http://host:port``) answers its health check."""

    async def ask() -> bool:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout)) as session,
            session.get(f"{url}/health") as response,
        ):
            return response.status == 200

    try:
        return asyncio.run(ask())
    except (aiohttp.ClientError, TimeoutError):
        return False


def find_model(url: str, model: str, api_key: str | None, option: str) -> str:
    """The name under which a server offers a model; checks that the server can be used at all.

    Args:
        model: the wanted name; empty takes the only one.
        option: the command-line option that named the server, for messages.

    Raises:
        ModelError: the server cannot be reached, refuses the key, or lacks the model.
    """
    names = asyncio.run(_model_names(url, api_key, option))
    if model in names:
        return model
    listed = ", ".join(names) or "none"
    if model:
        raise ModelError(f"{option} {url}#{model}: the server has no such model; it has: {listed}")
    if len(names) != 1:
        raise ModelError(f"{option} {url}: add #MODEL, one of: {listed}")
    return names[0]


async def _model_names(url: str, api_key: str | None, option: str) -> list[str]:
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    timeout = aiohttp.ClientTimeout(total=20)
    try:
        async with (
            aiohttp.ClientSession(headers=headers, timeout=timeout, trust_env=True) as session,
            session.get(f"{url}/models") as response,
        ):
            if response.status in (401, 403):
                raise ModelError(
                    f"{option} {url}: HTTP {response.status}: the server wants an API key; set "
                    f"{api_key_variable(option)} (or OPENAI_API_KEY) to a valid one"
                )
            response.raise_for_status()
            return [str(model["id"]) for model in (await response.json())["data"]]
    except (aiohttp.ClientError, TimeoutError) as fault:
        raise ModelError(
            f"{option} {url}: no OpenAI-compatible server answers there: {fault}; "
            "is it running, and does the URL end in /v1?"
        ) from None
    except (KeyError, TypeError, ValueError) as fault:
        raise ModelError(f"{option} {url}: /models gave no list of models: {fault!r}") from None


def api_key_variable(option: str) -> str:
    """The environment variable with the API key for ``--candidate`` or ``--judge``."""
    return f"REFUSAL_CHECKS_{option.lstrip('-').upper()}_API_KEY"
