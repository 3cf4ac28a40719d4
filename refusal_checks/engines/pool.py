"""The engines of one run: which are needed, who shares one, where they run, how to reach them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import EngineDiedError, EngineStartError
from refusal_checks.core.settings import JudgeSampling, Limits, Sampling
from refusal_checks.engines import devices
from refusal_checks.engines.base import WHOLE_MACHINE, Assignment, EngineSpec
from refusal_checks.engines.kinds import require_usable
from refusal_checks.engines.placement import (
    EngineNeed,
    Placement,
    PlacementRequest,
    choose,
    fit_beside,
)
from refusal_checks.engines.process import EngineProcess, EngineTransport
from refusal_checks.engines.servers import Needed, Say, Servers, Work
from refusal_checks.models import files
from refusal_checks.models.client.answers import Usage
from refusal_checks.models.client.attaching import Attaching
from refusal_checks.models.client.capabilities import ALL
from refusal_checks.models.client.client import Client
from refusal_checks.models.spec import Attached, CandidateModel, JudgeModel, Model, Served

WATCH = 1.0
"""Seconds between two looks at running engines."""

LOOK = 0.05
"""Seconds between two looks at whether an engine is ready."""

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


@dataclass(frozen=True)
class Tenant:
    """An engine, what it needs, and where it runs or is to run."""

    engine: EngineProcess
    need: EngineNeed
    place: Assignment = WHOLE_MACHINE

    @classmethod
    def of(cls, engine: EngineProcess, candidate: Model, judges: Iterable[Model]) -> Tenant:
        """An engine of a run with these models, not placed yet."""
        spec, kind = engine.spec, engine.engine

        def serves(model: Model) -> bool:
            return isinstance(model, Served) and EngineSpec.of(model) == spec

        need = EngineNeed(
            spec.model,
            kind.parallel(spec.args),
            files.weights_gib(spec.model, *kind.weights_at(spec.args)),
            answers=serves(candidate),
            judges=any(map(serves, judges)),
        )
        return cls(engine, need)


def followed(before: Sequence[Tenant], wanted: Sequence[Tenant]) -> list[Tenant]:
    """The wanted engines in the places of those before; none if they do not all fit.

    Those before must all be running and at the same time, else their places may not be free.
    """
    if len(wanted) != len(before) or any(tenant.place.turn for tenant in before):
        return []
    found = []
    for new, old in zip(wanted, before, strict=True):
        needs_as_much = replace(new.need, model="") == replace(old.need, model="")
        is_alike = needs_as_much and new.engine.spec.engine == old.engine.spec.engine
        if not old.engine.is_running() or not (is_alike or new.engine is old.engine):
            return []
        found.append(replace(new, place=old.place))
    return found


def early(before: Sequence[Tenant], wanted: Sequence[Tenant]) -> list[Tenant]:
    """Those of the wanted engines that can load while the ones before still work, in their places.

    Only on a CPU, with memory and a core to spare. On a GPU engines hold all the memory that they
    may have; and without a spare core the work takes longer by as much as the start is hidden.
    """
    if not all(tenant.engine.engine.runs_on_cpu() for tenant in (*before, *wanted)):
        return []
    running = [tenant.engine for tenant in before]
    new = [each for each in followed(before, wanted) if each.engine not in running]
    places = [[(each.need, each.place) for each in group] for group in (new, before)]
    return new if fit_beside(devices.cpu(), *places) else []


class Engines(Servers):
    """Candidate's and judges' engines; one for all that name the same model and arguments.

    Args:
        folder: for the engines' logs.
        shared: takes the engines, and has those of runs that take their turns with this one.
    """

    are_live = True

    def __init__(self, settings: PoolSettings, folder: Path, shared: Shared | None = None) -> None:
        super().__init__()
        self._roles: dict[str, list[Client]] = {}
        self._attached: list[Client] = []
        self._attaching = Attaching(settings.limits, settings.sampling, settings.judge_sampling)
        self._settings = settings
        self._models = (settings.candidate, *settings.judges)
        served = (model for model in self._models if isinstance(model, Served))
        specs = dict.fromkeys(map(EngineSpec.of, served))
        for spec in specs:
            require_usable(spec)
        shared = {} if shared is None else shared
        self._logs = {spec: folder / f"engine-{index}.log" for index, spec in enumerate(specs)}
        self._engines = {
            spec: shared.setdefault(spec, EngineProcess(spec, log))
            for spec, log in self._logs.items()
        }
        self._transports = {
            process: EngineTransport(process, settings.limits) for process in self._engines.values()
        }
        self._turn = 0
        self._tenants: list[Tenant] = []
        self._kept: list[EngineProcess] = []
        self._loading: list[EngineProcess] = []
        self._started: list[EngineProcess] = []
        self._restarted: set[EngineProcess] = set()
        self._is_closed = False
        self._launching = threading.Lock()
        self.placement = self.place(self._models)

    def connect(self, model: Served | Attached, option: str, number: int = 1) -> Client:
        """See ``Servers``; an attached server is asked for the model first."""
        if isinstance(model, Attached):
            client = self._attaching.connect(model, option, number)
            self._attached.append(client)
        else:
            client = self._transports[self._engines[EngineSpec.of(model)]].connect(model)
        self.clients.append(client)
        self._roles.setdefault(option.lstrip("-"), []).append(client)
        return client

    def account(self) -> dict[str, Any]:
        """See ``Servers``."""
        shown = {
            role: {
                f"{client.url}#{client.model}": client.capabilities.as_words()
                for client in clients
                if client in self._attached or client.capabilities != ALL
            }
            for role, clients in self._roles.items()
        }
        return {
            "tokens": {
                role: asdict(sum((client.usage for client in clients), Usage()))
                for role, clients in self._roles.items()
            },
            "capabilities": {role: found for role, found in shown.items() if found},
        }

    def place(self, models: Iterable[Model], before: Servers | None = None) -> Placement:
        """See ``Servers``."""
        wanted = self._wanted(models)
        taken = self._take_places(before, wanted) if isinstance(before, Engines) else []
        self._tenants = taken or self._choose(wanted)
        for tenant in self._tenants:
            tenant.engine.place = tenant.place
        return self.placement

    def _take_places(self, before: Engines, wanted: Sequence[Tenant]) -> list[Tenant]:
        """Stop what is not wanted; what is, in the places of the run before, if some of it runs."""
        left = followed(before._settled, wanted)
        self._kept = [tenant.engine for tenant in left if tenant.engine.is_running()]
        for engines in (before, self):  # so that there is room
            engines.stop(but=self._kept)
        if not self._kept:
            return []
        names = ", ".join(tenant.need.name for tenant in left)
        why = f"{names}, in the places of the run before, which needed as much"
        self.placement = replace(before.placement, why=why)
        return left

    def _choose(self, wanted: Sequence[Tenant]) -> list[Tenant]:
        here = devices.NONE
        if wanted:
            on_cpu = all(each.engine.engine.runs_on_cpu() for each in wanted)
            here = devices.cpu() if on_cpu else devices.gpus()
        self.placement = choose(here, [each.need for each in wanted], self._settings.placement)
        pairs = zip(wanted, self.placement.places, strict=True)
        return [replace(tenant, place=place) for tenant, place in pairs]

    def load_early(self, needed: Needed, before: Servers, say: Say) -> None:
        """See ``Servers``."""
        settled = before._settled if isinstance(before, Engines) else []
        if not early(settled, self._wanted(self._models)):
            return
        for tenant in early(settled, self._wanted(needed())):
            tenant.engine.place = tenant.place
            self._loading.append(tenant.engine)
            self._launch(tenant.engine, lambda line: say(f"{line}, beside the run before it"))

    @property
    def _settled(self) -> list[Tenant]:
        """The engines that have become ready in their places."""
        return [tenant for tenant in self._tenants if tenant.engine in self._started]

    def _wanted(self, models: Iterable[Model]) -> list[Tenant]:
        candidate, *judges = self._models
        specs = {EngineSpec.of(model) for model in models if isinstance(model, Served)}
        found = [process for spec, process in self._engines.items() if spec in specs]
        return [Tenant.of(process, candidate, judges) for process in found]

    def start(self, say: Say, turn: int = 0) -> None:
        """See ``Servers``."""
        self._turn = turn
        kept, self._kept = self._kept, []
        self.stop(but=kept)
        going_on = [process for process in kept if process not in self._loading]
        for process in going_on:
            say(f"{process.engine.title} goes on for {process.spec.model} (log: {process.log})")
            self._learn(process, say)
        self._start([process for process in self._of_turn() if process not in going_on], say)

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
                process.wait_ready(self._settings.limits.start_timeout, say)
                self._learn(process, say)

    def _launch(self, process: EngineProcess, say: Say) -> None:
        process.log = self._logs[process.spec]  # a run before may have started it
        say(f"starting {process.engine.title} for {process.spec.model} (log: {process.log})")
        with self._launching:
            if self._is_closed:
                raise EngineStartError("the session has ended: no engine is started")
            process.launch()

    def _learn(self, process: EngineProcess, say: Say) -> None:
        """Count an engine that is ready as started."""
        self._transports[process].learn(say)
        if process not in self._started:
            self._started.append(process)

    def _of_turn(self) -> list[EngineProcess]:
        return [each.engine for each in self._tenants if each.place.turn == self._turn]

    def _must_load_alone(self, engines: Sequence[EngineProcess]) -> bool:
        return self.placement.kind != "split" and any(
            process.engine.loads_alone and not process.engine.runs_on_cpu() for process in engines
        )

    async def ready(self, models: Iterable[Model] | None = None) -> None:
        """See ``Servers``."""
        specs = {EngineSpec.of(model) for model in models or () if isinstance(model, Served)}
        awaited = self._of_turn()
        if models is not None and not self._must_load_alone(awaited):
            awaited = [process for process in awaited if process.spec in specs]
        while True:
            if all(process in self._started for process in awaited):
                return
            await asyncio.sleep(LOOK)

    def require_running(self) -> None:
        """See ``Servers``."""
        for process in self._started:
            process.require_running()

    async def guard(self, work: Work, say: Say) -> None:
        """See ``Servers``."""
        async with AsyncExitStack() as stack:
            for transport in self._transports.values():
                await stack.enter_async_context(transport)
            while True:
                try:
                    return await self._watched(work())
                except Exception:
                    dead = [process for process in self._started if not process.is_running()]
                    if not dead or self._is_closed:
                        raise
                    await self._restart(dead, say)

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

    async def _restart(self, dead: Sequence[EngineProcess], say: Say) -> None:
        for process in dead:
            if process in self._restarted:
                raise EngineDiedError(process.report("ended during the run for the second time"))
            self._restarted.add(process)
            say(
                f"{process.engine.title} ended during the run and was started again, once: "
                f"{process.spec.model}; what it had not answered was asked again "
                f"(log: {process.log})"
            )
        await asyncio.to_thread(self._start, dead, lambda line: None)

    def stop(self, but: Collection[EngineProcess] = ()) -> None:
        """See ``Servers``; some may go on."""
        self._started = []
        for process in self._engines.values():
            if process not in but:
                process.stop()

    def close(self) -> None:
        """See ``Servers``."""
        with self._launching:
            self._is_closed = True
        self.stop()
