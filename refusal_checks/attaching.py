"""Connects to servers that others run: which model, which key, and what the server can do."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace

from refusal_checks import endpoint
from refusal_checks.capabilities import Capabilities
from refusal_checks.client import Client
from refusal_checks.client import Options as Request
from refusal_checks.errors import EndpointError, ModelError
from refusal_checks.models import Attached
from refusal_checks.options import Options
from refusal_checks.probing import probe

PATIENCE = 60.0
"""Most seconds for one of the small requests that find out what a server can do."""

CANDIDATE = "--candidate"


class Attaching:
    """Connects to the servers of one run; finds out once what each can do."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._known: dict[tuple[str, ...], Capabilities] = {}

    def client(self, model: Attached, option: str, number: int) -> Client:
        """A client for a model; see ``Engines.connect``.

        Raises:
            ModelError: the server cannot be reached, or does not answer as it must.
        """
        key = api_key(option, number)
        listed = endpoint.models(model.url, key, option)
        name = endpoint.choose(model.url, model.model, listed, option)
        connection = self._connection(model, name, key, option)
        known = (model.url, name, option, json.dumps(model.template_kwargs, default=str))
        try:
            if known not in self._known:
                self._known[known] = asyncio.run(self._probe(model, name, key, option))
        except EndpointError as fault:
            if listed and name not in listed:
                raise ModelError(
                    f"{option} {model.url}#{name}: the server has no such model; it has: "
                    f"{', '.join(listed)} ({fault})"
                ) from None
            raise ModelError(
                f"{option} {model.url}#{name}: the server answers no chat completion: {fault}"
            ) from None
        connection.capabilities = self._known[known]
        return connection

    def _connection(
        self, model: Attached, name: str, key: str, option: str, patience: float | None = None
    ) -> Client:
        paces = self._options.paces
        return Client(
            model.url,
            name,
            api_key=key,
            template_kwargs=model.template_kwargs,
            reasoning_end=model.reasoning_end,
            timeout=min(patience or self._options.limits.request_timeout),
            pace=paces.candidate if option == CANDIDATE else paces.judge,
        )
