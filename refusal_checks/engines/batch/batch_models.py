"""Models whose requests go into batch files, and whose answers come from result files."""

import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.filesize import decimal

from refusal_checks.core.errors import EndpointError, ModelError, UserError
from refusal_checks.core.files import write_lines
from refusal_checks.core.records import unusable
from refusal_checks.core.text import clean
from refusal_checks.core.verdicts import FILTERED, Reason
from refusal_checks.engines import kinds
from refusal_checks.engines.batch.inbox import WITHHELD, Inbox, custom_id
from refusal_checks.engines.engine import EngineSpec
from refusal_checks.engines.servers import Servers
from refusal_checks.models.client.answers import fills, read_choices, require_finished
from refusal_checks.models.client.capabilities import ALL, Support
from refusal_checks.models.client.client import CHAT, TOKENIZE, Client
from refusal_checks.models.client.label_probabilities import read_labels
from refusal_checks.models.client.server_errors import MALFORMED
from refusal_checks.models.model_files import declared
from refusal_checks.models.names import Attached, Served

USED: ContextVar[list[str] | None] = ContextVar("USED", default=None)
"""Collects the ids of the results that are read, while it holds a list."""

NOT_STORED = "not stored, and no server is asked: the answer waits for a batch"


class DeferredError(EndpointError):
    """The answer is not here yet; it may come with a batch."""


class BatchTransport:
    """Answers requests from batch results, and keeps the others for a batch file.

    Attributes:
        names: the models, as the user named them.
        count: number of requests without a result; they go into a batch file if one is wanted.
        spec: the engine that would be started for the models; None for an attached server.
        unfit: number of results that do not answer their request.
        context: context length of the models, if known.
        no_tokens: True if label token ids were requested, which no batch gives.
    """

    def __init__(
        self,
        inbox: Callable[[], Inbox],
        number: int,
        spec: EngineSpec | None,
        *,
        holds: bool,
    ) -> None:
        self.names: dict[str, None] = {}
        self.number = number
        self.count = 0
        self.spec = spec
        self.unfit: set[str] = set()
        self.context: int | None = None
        self.no_tokens = False
        self._inbox, self._holds = inbox, holds

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        if path != CHAT:
            self.no_tokens |= path == TOKENIZE
            raise DeferredError(f"no batch has {path}")
        request_id = custom_id(body)
        inbox = self._inbox()
        result, is_first = inbox.get(request_id), inbox.ask(request_id)
        if result == WITHHELD and USED.get() is None:
            result = _withheld(body)
        if result is not None:
            if _fits(result, body, self.context):
                used = USED.get()
                if used is not None:
                    used.append(request_id)
                return result
            self.unfit.add(request_id)
        if is_first:
            self.count += 1
            if self._holds:
                inbox.hold(self.number, request_id, body)
        raise DeferredError(NOT_STORED)


def _withheld(body: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a request to the candidate whose answers a content filter withheld."""
    choice = {"finish_reason": FILTERED, "message": {"content": None}}
    return {"choices": [choice] * body.get("n", 1)}


def _fits(
    result: Mapping[str, Any], body: Mapping[str, Any], context: int | None
) -> bool:
    """True if a result can be read and has everything that its request asked for."""
    try:
        require_finished(result)
        choices = read_choices(result, body.get("n", 1))
        if "top_logprobs" in body:
            read_labels(result["choices"][0], (), None)
    except (EndpointError, *MALFORMED):
        return False
    if USED.get() is not None or "top_logprobs" in body:
        return True  # a verdict, which its judge reads

    most = body.get("max_tokens", 0)
    for choice in choices:
        fault = unusable(replace(choice, reasoning=""), most)
        is_cut_off = fault is not None and fault.reason is Reason.UNFINISHED_ANSWER
        if is_cut_off and not fills(choice, result, most, most, context):
            return False
    return True


class BatchModels(Servers):
    """Stands in for a run's servers: starts none and asks none.

    Results beside the store are opened when needed. Requests without a result go into the file
    ``export``, if there is one.
    """

    def __init__(self, store: Path, export: Path | None = None) -> None:
        super().__init__()
        self._store = store
        self._export = export
        self._transports: dict[object, BatchTransport] = {}

    @cached_property
    def results(self) -> Inbox:
        return Inbox(self._store)

    def connect(self, model: Served | Attached, option: str, number: int = 1) -> Client:
        """Return a client that stands in for a model's server, which is not asked."""
        if isinstance(model, Served):
            spec = EngineSpec.of(model)
            name, url = model.served_name, model.path
            context = declared(model)
            transport = self._transport(spec, spec)
        else:
            if not model.model:
                raise ModelError(
                    f"{option} {model.url}: add #MODEL; a batch asks no server"
                )
            name, url = model.model, model.url
            context = None
            transport = self._transport((url, name), None)
        transport.names[model.name] = None
        writes_only = replace(ALL, scoring=Support.REFUSED)
        client = Client(
            url, name, extras=model, transport=transport, capabilities=writes_only
        )
        client.context = context
        transport.context = context
        self.clients.append(client)
        return client

    def _transport(self, server: object, spec: EngineSpec | None) -> BatchTransport:
        number, holds = len(self._transports), self._export is not None
        made = BatchTransport(lambda: self.results, number, spec, holds=holds)
        return self._transports.setdefault(server, made)

    def close(self) -> None:
        if "results" in vars(self):
            vars(self).pop("results").close()

    def finished(self, counts: Counter[str], examples: Iterable[str]) -> Iterator[str]:
        """End a round: write the batch files, and say what happened."""
        transports = self._transports.values()
        published = []
        if self._export:
            published = list(self._published(self._export))
        left = self.results.clear()
        unfit = sum(len(transport.unfit) for transport in transports)
        if counts:
            yield from _imported(counts, examples, left, unfit)

        waiting = sum(transport.count for transport in transports)
        if not waiting:
            yield "no request is pending: the gates can be decided"
        elif not published:
            yield f"{waiting} requests are pending: write them with --batch-export FILE"
        yield from published
        if any(transport.no_tokens for transport in transports):
            likely = "the 20 most probable tokens"
            yield f"label probabilities come from {likely}: no batch has /tokenize"

    def _published(self, path: Path) -> Iterator[str]:
        """Write the batch files; the second and later ones are numbered."""
        waiting = [
            transport for transport in self._transports.values() if transport.count
        ]
        for index, transport in enumerate(waiting, 1):
            named = path
            if index > 1:
                named = path.with_stem(f"{path.stem}-{index}")
            try:
                write_lines(named, self.results.held(transport.number))
            except OSError as fault:
                raise UserError(f"{named}: cannot be written: {fault}") from None
            size = decimal(named.stat().st_size)
            models = ", ".join(transport.names)
            yield f"{transport.count} requests written to {named} ({size}): {models}"
            command = ""
            if transport.spec:
                command = _command(transport.spec, named)
            yield f"  {command or 'for the batch API of that server'}"


def _imported(
    counts: Counter[str], examples: Iterable[str], left: Counter[str], unfit: int
) -> Iterator[str]:
    """Say what became of the lines of result files."""
    names = ("answered", "failed", "malformed", "duplicate")
    parts = ", ".join(f"{counts[name]} {name}" for name in names)
    yield f"{counts.total()} result lines: {parts}"
    for words in examples:
        yield f"  for example {clean(words, 300)}"
    yield f"{left['used'] - unfit} results were used"
    notes = {
        "do not fit: wrong count, broken off, malformed, or no log-probabilities": unfit,
        "are verdicts that cannot be read": left["kept"],
        "answer no pending request: stored already, or other options'": left["unasked"],
    }
    for words, number in notes.items():
        if number:
            yield f"{number} results {words}"


def _command(spec: EngineSpec, path: Path) -> str:
    """The shell command that answers a batch file; empty if the engine has none."""
    engine = kinds.get(spec.engine)
    command = engine.batch_command(spec, path, path.with_stem(f"{path.stem}-results"))
    if not command:
        return ""
    here = {**os.environ, engine.key_variable: ""}
    variables = []
    for name, text in engine.environment("", spec).items():
        if text != here.get(name):
            variables.append(f"{name}={shlex.quote(text)}")
    return " ".join([*variables, shlex.join(command)])
