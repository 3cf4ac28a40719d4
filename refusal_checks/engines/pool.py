"""The engines of a run: which ones it needs, which models share one, and where they run."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import EngineDiedError, EngineStartError
from refusal_checks.core.sampling import SamplingBase
from refusal_checks.core.settings import Limits, RequestPace
from refusal_checks.engines import placement, vllm
from refusal_checks.engines.engine_transport import EngineTransport
from refusal_checks.engines.placement import (
    UNKNOWN,
    EngineNeed,
    Placement,
    PlacementRequest,
)
from refusal_checks.engines.process import POLL, EngineProcess
from refusal_checks.engines.servers import Say, Servers, Work
from refusal_checks.engines.vllm import EngineSpec
from refusal_checks.models.client.attached_servers import attach
from refusal_checks.models.client.client import Client
from refusal_checks.models.client.transport import ConnectionSettings
from refusal_checks.models.client.usage import Usage
from refusal_checks.models.model_files import (
    argument_values,
    classifier_config,
    context_length,
)
from refusal_checks.models.model_names import (
    Attached,
    CandidateModel,
    JudgeModel,
    Model,
    Served,
)
from refusal_checks.models.weights import weights_gib

LOOK = 0.05
"""Seconds between two checks whether an engine is ready."""


class Engines(Servers):
    """Engines of candidate and judges; those with the same model and arguments share one."""

    are_live = True

    def __init__(
        self,
        candidate: CandidateModel,
        judges: Sequence[JudgeModel],
        folder: Path,
        limits: Limits,
        request: PlacementRequest,
        say: Say,
        start_timeout: float = 1800.0,
    ) -> None:
        """Check the models' engines and arguments; nothing starts.

        Args:
            folder: for the engines' logs.
            say: is told of attached servers that are slow, or do not list their model.
            start_timeout: seconds until an engine must be healthy.
        """
        super().__init__()
        self._candidate, self._judges = candidate, judges
        self._limits = limits
        self._request = request
        self._say = say
        self._start_timeout = start_timeout
        self._roles: dict[str, list[Client]] = {}
        self._engines: dict[EngineSpec, EngineProcess] = {}
        for index, spec in enumerate(_specs((candidate, *judges))):
            vllm.require_program(spec.program)
            if not spec.program:
                vllm.check_arguments(spec.args)
            self._engines[spec] = EngineProcess(spec, folder / f"engine-{index}.log")
        self._turn = 0
        self._placed: list[EngineProcess] = []
        self._started: list[EngineProcess] = []
        self._restarted: set[EngineProcess] = set()
        self._is_closed = False
        self._launching = threading.Lock()
        self.placement = self.place((candidate, *judges))

    # Connections

    def connect(
        self,
        model: Served | Attached,
        option: str,
        sampling: SamplingBase,
        pace: RequestPace,
        number: int = 1,
    ) -> Client:
        """Connect to a model; if its server is attached, send it a first request."""
        if isinstance(model, Attached):
            connection = ConnectionSettings(
                timeout=self._limits.request_timeout,
                pace=pace,
                outage=self._limits.outage_timeout,
            )
            client = attach(model, option, number, sampling, connection, self._say)
        else:
            process = self._engines[EngineSpec.from_model(model)]
            transport = EngineTransport(process, self._limits.request_timeout)
            client = Client(
                process.url, model.served_name, options=model, transport=transport
            )
            # An engine need not be asked, and is not up yet.
            client.context = context_length(model)
        self.clients.append(client)
        self._roles.setdefault(option.lstrip("-"), []).append(client)
        return client

    def usage_report(self) -> dict[str, Any]:
        engines = {process.url for process in self._engines.values()}
        tokens, servers = {}, {}
        for role, clients in self._roles.items():
            tokens[role] = asdict(sum((client.usage for client in clients), Usage()))
            shown = {}
            for client in clients:
                if client.url not in engines or client.left_out:
                    shown[f"{client.url}#{client.model}"] = {
                        "left_out": sorted(client.left_out),
                        "answers_as": client.answers_as,
                    }
            if shown:
                servers[role] = shown
        return {"tokens": tokens, "servers": servers}

    # Places

    def place(self, models: Iterable[Model]) -> Placement:
        specs = _specs(models)
        whole = engine_needs(self._candidate, self._judges)
        needs = [whole[spec] for spec in self._engines if spec in specs]
        devices = UNKNOWN
        if needs:
            devices = placement.cpu() if vllm.runs_on_cpu() else placement.gpus()
        self.placement = placement.place(devices, needs, self._request)
        self._placed = [self._engines[spec] for spec in self._engines if spec in specs]
        for process, place in zip(self._placed, self.placement.places, strict=True):
            process.place = place
        return self.placement

    # Starts and stops

    def start(self, say: Say, turn: int = 0) -> None:
        self._turn = turn
        self.stop()  # their memory is needed
        self._start(self._engines_of_turn(), say)

    def _start(self, engines: Sequence[EngineProcess], say: Say) -> None:
        """Start engines and wait until they are ready."""
        self._started = [each for each in self._started if each not in engines]
        groups = [engines]
        # vLLM measures free memory as it loads, and fails if another engine takes some meanwhile.
        if any(process.place.loads_alone for process in engines):
            groups = [[process] for process in engines]
        for group in groups:
            for process in group:
                say(f"starting vLLM for {process.spec.model} (log: {process.log})")
                # Else an engine that starts in a thread could outlive the session that ended.
                with self._launching:
                    if self._is_closed:
                        raise EngineStartError(
                            "the session has ended: no engine is started"
                        )
                    process.launch()
            loading = list(group)
            while loading:
                # All in turn, so that one that ends is noticed while another one loads.
                for process in tuple(loading):
                    if process.is_ready(self._start_timeout, say):
                        self._started.append(process)
                        loading.remove(process)
                if loading:
                    time.sleep(POLL)

    def _engines_of_turn(self) -> list[EngineProcess]:
        return [process for process in self._placed if process.place.turn == self._turn]

    async def wait_until_ready(self, models: Iterable[Model] | None = None) -> None:
        awaited = self._engines_of_turn()
        if models is not None and not any(each.place.loads_alone for each in awaited):
            specs = _specs(models)
            awaited = [process for process in awaited if process.spec in specs]
        while True:
            if all(process in self._started for process in awaited):
                return
            await asyncio.sleep(LOOK)

    def require_running(self) -> None:
        for process in self._started:
            process.require_running()

    async def run_with_restart(self, work: Work, say: Say) -> None:
        while True:
            try:
                return await work()
            except Exception:
                # Whatever was raised, a dead engine is the reason, and only that is repeated.
                dead = [each for each in self._started if not each.is_running()]
                if not dead or self._is_closed:
                    raise
                for process in dead:
                    if process in self._restarted:
                        words = "ended during the run for the second time"
                        raise EngineDiedError(process.report(words)) from None
                    say(
                        "vLLM ended during the run and was started again, once: "
                        f"{process.spec.model}; what it had not answered was asked again (log: "
                        f"{process.log})"
                    )
                self._restarted.update(dead)  # one that dies again would do so for ever
                await asyncio.to_thread(self._start, dead, lambda line: None)

    def stop(self) -> None:
        self._started = []
        # All end at the same time: whoever stopped the run may not wait long.
        for process in self._engines.values():
            process.ask_to_end()
        for process in self._engines.values():
            process.stop()

    def close(self) -> None:
        with self._launching:
            self._is_closed = True
        self.stop()


def _specs(models: Iterable[Model]) -> dict[EngineSpec, None]:
    """The engine specs for these models, in order and without duplicates."""
    served = (model for model in models if isinstance(model, Served))
    return dict.fromkeys(map(EngineSpec.from_model, served))


def engine_needs(
    candidate: Model, judges: Iterable[Model]
) -> dict[EngineSpec, EngineNeed]:
    """What these models' engines need; one that serves both roles has both."""
    answering, judging = _specs([candidate]), _specs(judges)
    needs: dict[EngineSpec, EngineNeed] = {}
    for model in (candidate, *judges):
        if not isinstance(model, Served):
            continue
        spec = EngineSpec.from_model(model)
        given = argument_values(spec.args)
        weights = weights_gib(
            spec.model, given.get("--revision"), given.get("--download-dir")
        )
        needs[spec] = EngineNeed(
            spec.model,
            vllm.read_parallelism(spec.args),
            weights and weights * vllm.memory_growth(model),
            answers=spec in answering,
            judges=spec in judging,
            classifies=classifier_config(model) is not None,
        )
    return needs
