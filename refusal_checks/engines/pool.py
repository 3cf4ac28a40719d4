"""The engines of one run: which are needed, who shares one, where they run, how to reach them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import EngineDiedError, EngineStartError
from refusal_checks.core.sampling import JudgeSampling, Sampling
from refusal_checks.core.settings import Limits, RequestPace
from refusal_checks.engines import devices, kinds
from refusal_checks.engines.engine import Assignment, EngineSpec
from refusal_checks.engines.engine_transport import EngineTransport
from refusal_checks.engines.placement import (
    EngineNeed,
    Placement,
    PlacementRequest,
    choose,
    fit_beside,
)
from refusal_checks.engines.process import EngineProcess
from refusal_checks.engines.servers import Needed, Say, Servers, Work
from refusal_checks.models import model_files, weights
from refusal_checks.models.client.attaching import Attaching
from refusal_checks.models.client.capabilities import ALL
from refusal_checks.models.client.client import Client
from refusal_checks.models.client.usage import Usage
from refusal_checks.models.names import (
    Attached,
    CandidateModel,
    JudgeModel,
    Model,
    Served,
)

WATCH, LOOK = 1.0, 0.05
"""Seconds between two looks at running engines, and at whether an engine is ready."""

Shared = dict[EngineSpec, EngineProcess]
"""The engines of several runs, by what they serve."""


@dataclass(frozen=True)
class PoolSettings:
    """The models of a run, and how their servers are placed and asked."""

    candidate: CandidateModel
    judges: tuple[JudgeModel, ...]
    limits: Limits
    sampling: Sampling
    judge_sampling: JudgeSampling
    placement: PlacementRequest = field(default_factory=PlacementRequest)
    start_timeout: float = 1800.0  # seconds
    paces: Mapping[str, RequestPace] = field(default_factory=dict)  # by role


Needs = dict[EngineProcess, EngineNeed]
"""Engines, and what each of them needs in a run."""

Places = dict[EngineProcess, Assignment]


def followed(before: Needs, wanted: Needs) -> Places:
    """The places of the engines before, for the wanted ones; none if they do not all fit.

    Those before must all be running and at the same time, else their places may not be free.
    """
    if len(wanted) != len(before) or any(process.place.turn for process in before):
        return {}
    for new, old in zip(wanted, before, strict=True):
        needs_as_much = asdict(wanted[new]) | {"model": ""} == asdict(before[old]) | {
            "model": ""
        }
        is_alike = needs_as_much and new.spec.engine == old.spec.engine
        if not old.is_running() or not (is_alike or new is old):
            return {}
    return dict(zip(wanted, [process.place for process in before], strict=True))


def early(before: Needs, wanted: Needs) -> Places:
    """Those of the wanted engines that can load while the ones before still work, in their places.

    Only on a CPU, with memory and a core to spare. On a GPU engines hold all the memory that they
    may have; and without a spare core the work takes longer by as much as the start is hidden.
    """
    if not all(process.engine.runs_on_cpu() for process in (*before, *wanted)):
        return {}
    places = followed(before, wanted)
    new = {process: place for process, place in places.items() if process not in before}
    more = [(wanted[process], place) for process, place in new.items()]
    running = [(need, process.place) for process, need in before.items()]
    return new if fit_beside(devices.cpu(), more, running) else {}


class Engines(Servers):
    """Candidate's and judges' engines; one for all that name the same model and arguments.

    ``shared`` takes the engines, and has those of runs that take their turns with this one.
    """

    are_live = True

    def __init__(
        self, settings: PoolSettings, folder: Path, shared: Shared | None = None
    ) -> None:
        super().__init__()
        self._roles: dict[str, list[Client]] = {}
        self._attached: list[Client] = []
        self._attaching = Attaching(
            settings.limits, settings.sampling, settings.judge_sampling, settings.paces
        )
        self._settings = settings
        self._models = (settings.candidate, *settings.judges)
        served = (model for model in self._models if isinstance(model, Served))
        specs = dict.fromkeys(map(EngineSpec.of, served))
        for spec in specs:
            engine = kinds.get(spec.engine)
            kinds.require_program(engine, spec.program)
            if not spec.program:
                engine.check(spec.args)
        shared = {} if shared is None else shared
        self._logs = {
            spec: folder / f"engine-{index}.log" for index, spec in enumerate(specs)
        }
        self._engines = {
            spec: shared.setdefault(spec, EngineProcess(spec, log))
            for spec, log in self._logs.items()
        }
        self._transports = {
            process: EngineTransport(process, settings.limits)
            for process in self._engines.values()
        }
        self._turn = 0
        self._needs: Needs = {}
        self._kept: list[EngineProcess] = []
        self._loading: list[EngineProcess] = []
        self._started: list[EngineProcess] = []
        self._restarted: set[EngineProcess] = set()
        self._is_closed = False
        self._launching = threading.Lock()
        self.placement = self.place(self._models)

    def connect(self, model: Served | Attached, option: str, number: int = 1) -> Client:
        """An attached server is asked for the model first."""
        if isinstance(model, Attached):
            client = self._attaching.connect(model, option, number)
            self._attached.append(client)
        else:
            client = self._transports[self._engines[EngineSpec.of(model)]].connect(
                model
            )
        self.clients.append(client)
        self._roles.setdefault(option.lstrip("-"), []).append(client)
        return client

    def account(self) -> dict[str, Any]:
        shown = {
            role: {
                f"{client.url}#{client.model}": client.capabilities.as_words()
                | client.naming
                for client in clients
                if client in self._attached or client.capabilities != ALL
            }
            for role, clients in self._roles.items()
        }
        used = {
            role: asdict(sum((client.usage for client in clients), Usage()))
            for role, clients in self._roles.items()
        }
        found = {role: words for role, words in shown.items() if words}
        return {"tokens": used, "capabilities": found}

    def place(
        self, models: Iterable[Model], before: Servers | None = None
    ) -> Placement:
        self._needs = wanted = self._wanted(models)
        places = (
            self._take_places(before, wanted) if isinstance(before, Engines) else {}
        )
        if not places:
            here = devices.NONE
            if wanted:
                on_cpu = all(process.engine.runs_on_cpu() for process in wanted)
                here = devices.cpu() if on_cpu else devices.gpus()
            self.placement = choose(
                here, list(wanted.values()), self._settings.placement
            )
            places = dict(zip(wanted, self.placement.places, strict=True))
        for process, place in places.items():
            process.place = place
        return self.placement

    def _take_places(self, before: Engines, wanted: Needs) -> Places:
        """Stop engines that are not wanted; the others keep the places of the run before."""
        places = followed(before._settled, wanted)
        self._kept = [process for process in places if process.is_running()]
        for engines in (before, self):  # so that there is room
            engines.stop(but=self._kept)
        if not self._kept:
            return {}
        names = ", ".join(need.name for need in wanted.values())
        why = f"{names}, in the places of the run before, which needed as much"
        self.placement = replace(before.placement, why=why)
        return places

    def load_early(self, needed: Needed, before: Servers, say: Say) -> None:
        settled = before._settled if isinstance(before, Engines) else {}
        if not early(settled, self._wanted(self._models)):
            return
        for process, place in early(settled, self._wanted(needed())).items():
            process.place = place
            self._loading.append(process)
            self._launch(process, lambda line: say(f"{line}, beside the run before it"))

    @property
    def _settled(self) -> Needs:
        return {
            process: need
            for process, need in self._needs.items()
            if process in self._started
        }

    def _wanted(self, models: Iterable[Model]) -> Needs:
        """The engines of these models, and what they need whatever they do in the run."""
        wanted = {EngineSpec.of(model) for model in models if isinstance(model, Served)}
        candidate, *judges = [
            EngineSpec.of(model) if isinstance(model, Served) else None
            for model in self._models
        ]
        classifiers = {
            EngineSpec.of(model)
            for model in self._models
            if isinstance(model, Served) and model_files.classes(model)
        }
        return {
            process: EngineNeed(
                spec.model,
                process.engine.parallel(spec.args),
                weights.weights_gib(spec.model, *process.engine.weights_at(spec.args)),
                answers=spec == candidate,
                judges=spec in judges,
                classifies=spec in classifiers,
            )
            for spec, process in self._engines.items()
            if spec in wanted
        }

    def start(self, say: Say, turn: int = 0) -> None:
        self._turn = turn
        kept, self._kept = self._kept, []
        self.stop(but=kept)
        going_on = [process for process in kept if process not in self._loading]
        for process in going_on:
            say(
                f"{process.engine.title} goes on for {process.spec.model} (log: {process.log})"
            )
            self._learn(process, say)
        self._start(
            [process for process in self._of_turn() if process not in going_on], say
        )

    def _start(self, engines: Sequence[EngineProcess], say: Say) -> None:
        """Start engines, if they do not load already, and wait for them.

        On a GPU that several share they load one after the other: vLLM's memory profiling fails if
        two engines start at once.
        """
        alone = self._must_load_alone(engines)
        for group in [[process] for process in engines] if alone else [engines]:
            for process in group:
                if not process.is_running():
                    self._launch(process, say)
            for process in group:
                process.wait_ready(self._settings.start_timeout, say)
                self._learn(process, say)

    def _launch(self, process: EngineProcess, say: Say) -> None:
        process.log = self._logs[process.spec]  # a run before may have started it
        say(
            f"starting {process.engine.title} for {process.spec.model} (log: {process.log})"
        )
        with self._launching:
            if self._is_closed:
                raise EngineStartError("the session has ended: no engine is started")
            process.launch()

    def _learn(self, process: EngineProcess, say: Say) -> None:
        self._transports[process].learn(say)
        if process not in self._started:
            self._started.append(process)

    def _of_turn(self) -> list[EngineProcess]:
        return [process for process in self._needs if process.place.turn == self._turn]

    def _must_load_alone(self, engines: Sequence[EngineProcess]) -> bool:
        return self.placement.kind != "split" and any(
            process.engine.loads_alone and not process.engine.runs_on_cpu()
            for process in engines
        )

    async def ready(self, models: Iterable[Model] | None = None) -> None:
        specs = {
            EngineSpec.of(model) for model in models or () if isinstance(model, Served)
        }
        awaited = self._of_turn()
        if models is not None and not self._must_load_alone(awaited):
            awaited = [process for process in awaited if process.spec in specs]
        while True:
            if all(process in self._started for process in awaited):
                return
            await asyncio.sleep(LOOK)

    def require_running(self) -> None:
        for process in self._started:
            process.require_running()

    async def guard(self, work: Work, say: Say) -> None:
        async with AsyncExitStack() as stack:
            for transport in self._transports.values():
                await stack.enter_async_context(transport)
            while True:
                try:
                    return await self._watched(work())
                except Exception:
                    dead = [
                        process for process in self._started if not process.is_running()
                    ]
                    if not dead or self._is_closed:
                        raise
                    for process in dead:
                        if process in self._restarted:
                            words = "ended during the run for the second time"
                            raise EngineDiedError(process.report(words)) from None
                        self._restarted.add(process)
                        say(
                            f"{process.engine.title} ended during the run and was started again, "
                            f"once: {process.spec.model}; what it had not answered was asked again "
                            f"(log: {process.log})"
                        )
                    await asyncio.to_thread(self._start, dead, lambda line: None)

    async def _watched(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work; raise EngineDiedError as soon as a started engine has ended."""
        task = asyncio.create_task(work)
        try:
            while not task.done():
                self.require_running()
                await asyncio.wait([task], timeout=WATCH)
            task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def stop(self, but: Collection[EngineProcess] = ()) -> None:
        self._started = []
        for process in self._engines.values():
            if process not in but:
                process.stop()

    def close(self) -> None:
        with self._launching:
            self._is_closed = True
        self.stop()
