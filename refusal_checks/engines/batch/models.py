"""Models whose requests go into batch files and whose answers come from results."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import EndpointError, ModelError
from refusal_checks.core.records import Completion, unusable
from refusal_checks.core.text import clean
from refusal_checks.core.verdicts import Reason
from refusal_checks.engines import kinds
from refusal_checks.engines.base import EngineSpec
from refusal_checks.engines.batch.files import ImportCounts, Inbox, RequestFile, custom_id
from refusal_checks.engines.servers import Servers
from refusal_checks.models.client.answers import (
    MALFORMED,
    read_choices,
    read_labels,
    require_finished,
    tokens,
)
from refusal_checks.models.client.client import CHAT, Client
from refusal_checks.models.files import declared
from refusal_checks.models.spec import Attached, Served

USED: ContextVar[list[str] | None] = ContextVar("USED", default=None)
"""Collects the ids of the results that are read, while it holds a list."""


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


class DeferredError(EndpointError):
    """The answer is not here yet; it may come with a batch."""


class BatchTransport:
    """Answers requests from batch results, and writes those without one into a batch file.

    Attributes:
        names: the models, as the user named them.
        requests: the file for those without a result; None if they are only counted.
        spec: the engine that would be started for the models; None for an attached server.
        waiting: requests without a result.
        unfit: results that do not answer their request.
        context: of the models, where it is known.
        no_tokens: True if tokens of labels were asked for, which no batch gives.
    """

    def __init__(
        self, inbox: Callable[[], Inbox], requests: RequestFile | None, spec: EngineSpec | None
    ) -> None:
        self.names: dict[str, None] = {}
        self.requests = requests
        self.spec = spec
        self.waiting = 0
        self.unfit: set[str] = set()
        self.context: int | None = None
        self.no_tokens = False
        self._inbox = inbox

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """See ``Transport``."""
        if path != CHAT:
            self.no_tokens = True
            raise DeferredError(f"no batch has {path}")
        request_id = custom_id(body)
        inbox = self._inbox()
        found, is_first = inbox.get(request_id), inbox.ask(request_id)
        if found is not None:
            if _fits(found, body, self.context):
                if (used := USED.get()) is not None:
                    used.append(request_id)
                return found
            self.unfit.add(request_id)
        if is_first:
            self.waiting += 1
            if self.requests is not None:
                self.requests.add(request_id, body)
        raise DeferredError("not stored, and no server is asked: the answer waits for a batch")


def _fits(found: Mapping[str, Any], body: Mapping[str, Any], context: int | None) -> bool:
    """True if a result can be read and has all that its request asked for."""
    try:
        require_finished(found)
        choices = read_choices(found, body.get("n", 1))
        if "top_logprobs" in body:
            read_labels(found["choices"][0], (), None)
    except (EndpointError, *MALFORMED):
        return False
    if USED.get() is not None or "top_logprobs" in body:
        return True  # a verdict, which its judge reads
    most, prompt = body.get("max_tokens", 0), tokens(found)[0]
    for choice in choices:
        fault = unusable(Completion(choice.text, choice.finish_reason, choice.tokens), most)
        is_cut_off = fault is not None and fault.reason is Reason.UNFINISHED_ANSWER
        if is_cut_off and not choice.fills(prompt, most, most, context):
            return False
    return True


class BatchModels(Servers):
    """Stand in for a run's servers: none is started, none is asked.

    Args:
        store: the store's file; results beside it are opened when needed.
        export: file for requests without a result; None if they are not written.
    """

    def __init__(self, store: Path, export: Path | None = None) -> None:
        super().__init__()
        self._store = store
        self._export = export
        self._transports: dict[object, BatchTransport] = {}

    @cached_property
    def results(self) -> Inbox:
        """The imported results."""
        return Inbox(self._store)

    def connect(self, model: Served | Attached, option: str, number: int = 1) -> Client:
        """See ``Servers``; an attached server is not asked for its only model."""
        if isinstance(model, Served):
            spec = EngineSpec.of(model)
            name, url, context = model.served_name, model.path, declared(model)
            transport = self._transport(spec, spec)
        else:
            if not model.model:
                raise ModelError(f"{option} {model.url}: add #MODEL; a batch asks no server")
            name, url, context = model.model, model.url, None
            transport = self._transport((url, name), None)
        transport.names[model.name] = None
        client = Client(url, name, extras=model, transport=transport)
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

    def close(self) -> None:
        """Remove unpublished batch files and keep the results."""
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
        return sum(len(transport.unfit) for transport in self._transports.values())

    @property
    def asked_for_tokens(self) -> bool:
        """True if tokens of labels were asked for, which no batch gives."""
        return any(transport.no_tokens for transport in self._transports.values())

    def publish(self) -> tuple[Written, ...]:
        """Give the batch files their names; from the second on they are numbered."""
        files: list[Written] = []
        for transport in self._transports.values():
            requests, path = transport.requests, self._export
            if requests is None or path is None or not requests.count:
                continue
            if files:
                path = path.with_stem(f"{path.stem}-{len(files) + 1}")
            requests.publish(path)
            command = _command(transport.spec, path) if transport.spec else ""
            models = tuple(transport.names)
            files.append(Written(path, models, requests.count, requests.size, command))
        return tuple(files)


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


@dataclass(frozen=True)
class BatchReport:
    """The outcome of a round.

    Attributes:
        imported: the lines of the result files.
        left: counts of ``Inbox.clear``.
        unfit: results that do not answer their request.
        waiting: requests without a result.
        written: the batch files.
        notes: facts that the user must know about the answers.
    """

    imported: ImportCounts
    left: Mapping[str, int]
    unfit: int
    waiting: int
    written: tuple[Written, ...]
    notes: tuple[str, ...]

    def lines(self) -> list[str]:
        """The report for people."""
        return [*self._imported(), *self._exported(), *self.notes]

    def _imported(self) -> Iterator[str]:
        counts = self.imported.counts
        if not counts:
            return
        yield f"{counts.total()} result lines: " + ", ".join(
            f"{counts[name]} {name}" for name in ("answered", "failed", "malformed", "duplicate")
        )
        yield from (f"  for example {clean(words, 300)}" for words in self.imported.examples)
        yield f"{self.left['used'] - self.unfit} results were used"
        if self.unfit:
            yield (
                f"{self.unfit} results have another number of answers than was asked for, are "
                "broken off or malformed, or lack the log-probabilities"
            )
        if self.left["kept"]:
            yield f"{self.left['kept']} results are verdicts that cannot be read"
        if self.left["unasked"]:
            yield (
                f"{self.left['unasked']} results answer no pending request: they are stored "
                "already, or other options made those requests"
            )

    def _exported(self) -> Iterator[str]:
        if not self.waiting:
            yield "no request is pending: the gates can be decided"
        elif not self.written:
            yield f"{self.waiting} requests are pending: write them with --batch-export FILE"
        for file in self.written:
            size = f"{file.size / 1e6:.1f} MB" if file.size >= 1e5 else f"{file.size / 1e3:.1f} kB"
            models = ", ".join(file.models)
            yield f"{file.requests} requests written to {file.path} ({size}): {models}"
            yield f"  {file.command or 'for the batch API of that server'}"
