"""Models whose requests go into batch files and whose answers come from results."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_checks import engine
from refusal_checks.batch.files import RequestFile, custom_id
from refusal_checks.batch.results import Results
from refusal_checks.client import CHAT, Client
from refusal_checks.engine import EngineSpec
from refusal_checks.errors import EndpointError, ModelError
from refusal_checks.identity import Model
from refusal_checks.models import Attached, Served
from refusal_checks.placement import devices
from refusal_checks.placement.choice import choose
from refusal_checks.placement.values import Placement, Wish
from refusal_checks.servers import Say, Work

USED: ContextVar[list[str] | None] = ContextVar("USED", default=None)
"""Takes the ids of the results that are read while it holds a list."""


class DeferredError(EndpointError):
    """The answer is not there yet: it comes with a batch, or never does."""


class BatchTransport:
    """Takes requests to the results of batches, and what has none into a batch file.

    Attributes:
        names: the models, as the user named them.
        requests: the file for those without a result; None where they are only counted.
        spec: the engine that would be started for the models; None for a server that others run.
        waiting: requests without a result.
        no_tokens: whether tokens of labels were asked for, which no batch gives.
    """

    def __init__(
        self, results: Results, requests: RequestFile | None, spec: EngineSpec | None
    ) -> None:
        self.names: dict[str, None] = {}
        self.requests = requests
        self.spec = spec
        self.waiting = 0
        self.no_tokens = False
        self._results = results

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """See ``Transport.post``.

        Raises:
            DeferredError: there is no result, or the path is none that batches have.
        """
        if path != CHAT:
            self.no_tokens = True
            raise DeferredError(f"no batch has {path}")
        id = custom_id(body)
        found = self._results.get(id)
        is_first = self._results.ask(id)
        if found is not None and len(found["choices"]) == body.get("n", 1):
            used = USED.get()
            if used is not None:
                used.append(id)
            return found
        if is_first:
            self.waiting += 1
            if self.requests is not None:
                self.requests.add(id, body)
        raise DeferredError("nothing is stored, and no server is asked: this waits for a batch")


@dataclass(frozen=True)
class Written:
    """A batch file.

    Attributes:
        models: that answer its requests, all on one server; as the user named them.
        size: bytes.
        command: runs it; empty for a server that others run.
    """

    path: Path
    models: tuple[str, ...]
    requests: int
    size: int
    command: str


class BatchModels:
    """Stands for the run's servers (``servers.Servers``): none is started, none is asked.

    Attributes:
        results: what answers.

    Args:
        store: the store's file.
        export: where requests without a result are written; None where they are not.
    """

    are_live = False
    placement = choose(devices.NONE, [], Wish())

    def __init__(self, store: Path, export: Path | None = None) -> None:
        self.clients: list[Client] = []
        self.results = Results(store)
        self._export = export
        self._transports: dict[object, BatchTransport] = {}

    def connect(self, model: Served | Attached, option: str, number: int = 1) -> Client:
        """See ``Servers.connect``; a server that others run is not asked for its only model.

        Raises:
            ModelError: the URL of such a server does not name the model.
        """
        if isinstance(model, Served):
            spec = EngineSpec(model.path, model.args)
            name, url = model.served_name, model.path
            transport = self._transport(spec, spec)
        else:
            if not model.model:
                raise ModelError(f"{option} {model.url}: add #MODEL; a batch asks no server")
            name, url = model.model, model.url
            transport = self._transport((url, name), None)
        transport.names[model.name] = None
        connection = Client(
            url,
            name,
            template_kwargs=model.template_kwargs,
            reasoning_end=model.reasoning_end,
            transport=transport,
        )
        self.clients.append(connection)
        return connection

    def _transport(self, server: object, spec: EngineSpec | None) -> BatchTransport:
        """One for all models of a server, since a batch goes to one."""
        if server not in self._transports:
            requests = None
            if self._export is not None:
                name = f"{self._export.name}.part{len(self._transports) + 1}"
                requests = RequestFile(self._export.with_name(name))
            self._transports[server] = BatchTransport(self.results, requests, spec)
        return self._transports[server]

    def place(self, models: Iterable[Model]) -> Placement:
        """See ``Servers.place``; nowhere."""
        return self.placement

    def start(self, say: Say, turn: int = 0) -> None:
        """See ``Servers.start``; nothing is."""

    def require_running(self) -> None:
        """See ``Servers.require_running``; nothing has to."""

    async def guard(self, work: Work, say: Say) -> None:
        """See ``Servers.guard``."""
        await work()

    def account(self) -> dict[str, Any]:
        """See ``Servers.account``; nothing is paid for here."""
        return {}

    def stop(self) -> None:
        """See ``Servers.stop``; nothing runs."""

    def close(self) -> None:
        """Remove what has not been published, and leave the results; see ``Servers.close``."""
        for transport in self._transports.values():
            if transport.requests is not None:
                transport.requests.discard()
        self.results.close()

    @property
    def waiting(self) -> int:
        """Requests without a result."""
        return sum(transport.waiting for transport in self._transports.values())

    @property
    def asked_for_tokens(self) -> bool:
        """Whether tokens of labels were asked for, which no batch gives."""
        return any(transport.no_tokens for transport in self._transports.values())

    def publish(self) -> tuple[Written, ...]:
        """Give the batch files their names: the first its own, others one with a number."""
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
    """The line that runs a batch file on vLLM."""
    given = {**os.environ, "VLLM_API_KEY": ""}
    own = engine.environment("", spec)
    variables = [f"{name}={shlex.quote(own[name])}" for name in own if own[name] != given.get(name)]
    results = path.with_stem(f"{path.stem}-results")
    return " ".join([*variables, shlex.join(engine.batch_command(spec, path, results))])
