"""Models whose requests go into batch files and whose answers come from results."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import ModelError
from refusal_checks.engines import kinds
from refusal_checks.engines.base import EngineSpec
from refusal_checks.engines.batch.inbox import Results
from refusal_checks.engines.batch.jsonl import RequestFile
from refusal_checks.engines.batch.transport import BatchTransport
from refusal_checks.engines.placement import devices
from refusal_checks.engines.placement.choice import choose
from refusal_checks.engines.placement.values import Placement, PlacementRequest
from refusal_checks.engines.servers import Needed, Say, Servers, Work
from refusal_checks.models.client.client import Client
from refusal_checks.models.context import declared
from refusal_checks.models.identity import Model
from refusal_checks.models.spec import Attached, Extras, Served


@dataclass(frozen=True)
class Written:
    """A batch file.

    Attributes:
        models: that answer its requests, all on one server; as the user named them.
        size: bytes.
        command: runs it; empty if none is known.
    """

    path: Path
    models: tuple[str, ...]
    requests: int
    size: int
    command: str


class BatchModels:
    """Stand in for a run's servers (``servers.Servers``): none is started, none is asked.

    Args:
        store: the store's file; results beside it are opened when needed.
        export: file for requests without a result; None if they are not written.
    """

    are_live = False
    placement = choose(devices.NONE, [], PlacementRequest())

    def __init__(self, store: Path, export: Path | None = None) -> None:
        self.clients: list[Client] = []
        self._store = store
        self._export = export
        self._transports: dict[object, BatchTransport] = {}

    @cached_property
    def results(self) -> Results:
        """The imported results."""
        return Results(self._store)

    def connect(self, model: Served | Attached, option: str, number: int = 1) -> Client:
        """See ``Servers.connect``; an attached server is not asked for its only model.

        Raises:
            ModelError: the URL of such a server does not name the model.
        """
        if isinstance(model, Served):
            spec = EngineSpec.of(model)
            name, url = model.served_name, model.path
            transport = self._transport(spec, spec)
            context = declared(model)
        else:
            if not model.model:
                raise ModelError(f"{option} {model.url}: add #MODEL; a batch asks no server")
            name, url = model.model, model.url
            transport = self._transport((url, name), None)
            context = None
        transport.names[model.name] = None
        client = Client(
            url,
            name,
            extras=Extras((), model.template_kwargs, model.reasoning_end),
            transport=transport,
        )
        client.context = transport.context = context
        self.clients.append(client)
        return client

    def _transport(self, server: object, spec: EngineSpec | None) -> BatchTransport:
        """One for all models of a server, since a batch goes to one."""
        if server not in self._transports:
            requests = None
            if self._export is not None:
                name = f"{self._export.name}.part{len(self._transports) + 1}"
                requests = RequestFile(self._export.with_name(name))
            self._transports[server] = BatchTransport(lambda: self.results, requests, spec)
        return self._transports[server]

    def account(self) -> dict[str, Any]:
        """See ``Servers.account``; nothing is counted."""
        return {}

    def place(self, models: Iterable[Model], before: Servers | None = None) -> Placement:
        """See ``Servers.place``; nothing is placed."""
        return self.placement

    def load_early(self, needed: Needed, before: Servers, say: Say) -> None:
        """See ``Servers.load_early``; nothing is loaded."""

    def start(self, say: Say, turn: int = 0) -> None:
        """See ``Servers.start``; nothing is started."""

    async def ready(self, models: Iterable[Model] | None = None) -> None:
        """See ``Servers.ready``; always."""

    def require_running(self) -> None:
        """See ``Servers.require_running``; nothing runs."""

    async def guard(self, work: Work, say: Say) -> None:
        """See ``Servers.guard``."""
        await work()

    def stop(self) -> None:
        """See ``Servers.stop``; nothing runs."""

    def close(self) -> None:
        """See ``Servers.close``; removes unpublished batch files and keeps the results."""
        for transport in self._transports.values():
            if transport.requests is not None:
                transport.requests.discard()
        if "results" in vars(self):
            self.results.close()

    @property
    def waiting(self) -> int:
        """Requests without a result."""
        return sum(transport.waiting for transport in self._transports.values())

    @property
    def unfit(self) -> int:
        """Results that do not answer their request."""
        return sum(transport.unfit for transport in self._transports.values())

    @property
    def asked_for_tokens(self) -> bool:
        """True if tokens of labels were asked for, which no batch gives."""
        return any(transport.no_tokens for transport in self._transports.values())

    def publish(self) -> tuple[Written, ...]:
        """Give the batch files their names; from the second on they are numbered."""
        files: list[Written] = []
        for transport in self._transports.values():
            requests = transport.requests
            if requests is None or self._export is None or not requests.count:
                continue
            path = _numbered(self._export, len(files) + 1)
            requests.publish(path)
            command = _command(transport.spec, path) if transport.spec else ""
            models = tuple(transport.names)
            files.append(Written(path, models, requests.count, requests.size, command))
        return tuple(files)


def _numbered(path: Path, number: int) -> Path:
    return path if number == 1 else path.with_stem(f"{path.stem}-{number}")


def _command(spec: EngineSpec, path: Path) -> str:
    """The shell command that answers a batch file; empty if the engine has none."""
    engine = kinds.get(spec.engine)
    command = engine.batch_command(spec, path, path.with_stem(f"{path.stem}-results"))
    if not command:
        return ""
    given = {**os.environ, engine.key_variable: ""}
    settings = engine.environment("", spec).items()
    variables = [
        f"{name}={shlex.quote(text)}" for name, text in settings if text != given.get(name)
    ]
    return " ".join([*variables, shlex.join(command)])
