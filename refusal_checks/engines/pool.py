"""The engines of one run: which it needs, which models share one, where and how they run."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import (
    EngineDiedError,
    EngineFaultError,
    EngineStartError,
    OutOfMemoryError,
    UserError,
)
from refusal_checks.core.sampling import JudgeSampling, Sampling
from refusal_checks.core.settings import Limits, RequestPace
from refusal_checks.engines import devices, vllm
from refusal_checks.engines.devices import Devices
from refusal_checks.engines.engine import Assignment, EngineSpec
from refusal_checks.engines.engine_transport import EngineTransport
from refusal_checks.engines.gpu_placing import SPARE
from refusal_checks.engines.placement import EngineNeed, Placement, PlacementRequest
from refusal_checks.engines.placing import choose
from refusal_checks.engines.process import POLL, EngineProcess
from refusal_checks.engines.servers import Say, Servers, Work
from refusal_checks.engines.vllm import ENGINE
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

ROOM_TO_SLEEP = 1.2
"""Part of its weights' size that must be free in the machine's memory for an engine to sleep."""

Shared = dict[EngineSpec, EngineProcess]
"""The engines of several runs, by what they serve."""


@dataclass(frozen=True)
class PoolSettings:
    """The models of a run, and how their servers are placed and asked.

    Attributes:
        start_timeout: seconds until an engine must be healthy.
        paces: limits on requests, by role.
    """

    candidate: CandidateModel
    judges: tuple[JudgeModel, ...]
    limits: Limits
    sampling: Sampling
    judge_sampling: JudgeSampling
    placement: PlacementRequest = field(default_factory=PlacementRequest)
    start_timeout: float = 1800.0
    paces: Mapping[str, RequestPace] = field(default_factory=dict)


Needs = dict[EngineProcess, EngineNeed]
"""Engines, and what each of them needs in a run."""

Places = dict[EngineProcess, Assignment]


def places_to_keep(before: Needs, needed: Needs) -> Places:
    """Assignments of the engines before, for those needed now; none if they do not all fit.

    The engines before must all run at the same time, else their devices may not be free.
    """
    if len(needed) != len(before):
        return {}
    places = {}
    for new, old in zip(needed, before, strict=True):
        if old.place.turn or not old.is_running():
            return {}
        # A new engine fits where the old one was if it needs as much, whatever its model is.
        needs_as_much = _size(needed[new]) == _size(before[old])
        if new is not old and not needs_as_much:
            return {}
        places[new] = old.place
    return places


def _devices(needed: Needs) -> Devices:
    """The devices that these engines can run on, and what is in use of them now."""
    if not needed:
        return devices.NONE
    return devices.cpu() if vllm.runs_on_cpu() else devices.gpus()


def _able_to_sleep(before: Needs, needed: Needs) -> list[EngineProcess]:
    """Engines of the turn that has ended that the next run needs in its second turn.

    Their weights must fit into the machine's own memory.
    """
    able = []
    free = devices.cpu().memory or 0.0
    for process, need in before.items():
        takes = ROOM_TO_SLEEP * (need.weights or math.inf)
        is_needed = process in needed and process.is_running()
        if is_needed and process.place.can_sleep and takes <= free:
            able.append(process)
            free -= takes
    return able


def _is_back_in(process: EngineProcess, place: Assignment) -> bool:
    """True if an engine that comes back in its turn is where this assignment wants it."""
    old = process.place
    return replace(place, memory=old.memory, cache=old.cache) == old


def _have_own_gpus(engines: Sequence[EngineProcess]) -> bool:
    """True if each is assigned GPUs, and no two the same."""
    taken: set[str] = set()
    for process in engines:
        own = process.place.devices
        if not own or not taken.isdisjoint(own):
            return False
        taken.update(own)
    return True


def _size(need: EngineNeed) -> Mapping[str, Any]:
    return asdict(need) | {"model": ""}


class Engines(Servers):
    """Engines of candidate and judges; those with the same model and arguments share one.

    ``shared`` holds running engines, also those of other candidates' runs that take turns with this
    one.
    """

    are_live = True

    def __init__(
        self, settings: PoolSettings, folder: Path, shared: Shared | None = None
    ) -> None:
        super().__init__()
        self._settings = settings
        self._models: tuple[Model, ...] = (settings.candidate, *settings.judges)
        self._roles: dict[str, list[Client]] = {}
        self._attached: list[Client] = []
        self._attaching = Attaching(
            settings.limits, settings.sampling, settings.judge_sampling, settings.paces
        )
        self._create(folder, {} if shared is None else shared)

        self._turn = 0
        self._needs: Needs = {}
        self._kept: list[EngineProcess] = []
        self._started: list[EngineProcess] = []
        self._restarted: set[EngineProcess] = set()
        self._is_closed = False
        self._launching = threading.Lock()
        self.placement = self.place(self._models)

    def _create(self, folder: Path, shared: Shared) -> None:
        """Check the models' engines and arguments, and create them; nothing starts."""
        self._logs: dict[EngineSpec, Path] = {}
        self._engines: Shared = {}
        self._transports: dict[EngineProcess, EngineTransport] = {}
        for index, spec in enumerate(_specs(self._models)):
            ENGINE.require_program(spec.program)
            if not spec.program:
                ENGINE.check(spec.args)
            self._logs[spec] = folder / f"engine-{index}.log"
            if spec not in shared:
                shared[spec] = EngineProcess(spec, self._logs[spec])
            process = shared[spec]
            self._engines[spec] = process
            self._transports[process] = EngineTransport(process, self._settings.limits)

    # Connections

    def connect(self, model: Served | Attached, option: str, number: int = 1) -> Client:
        """Connect to a model; an attached server is probed first."""
        if isinstance(model, Attached):
            client = self._attaching.connect(model, option, number)
            self._attached.append(client)
        else:
            process = self._engines[EngineSpec.of(model)]
            client = self._transports[process].connect(model)
        self.clients.append(client)
        self._roles.setdefault(option.lstrip("-"), []).append(client)
        return client

    def account(self) -> dict[str, Any]:
        tokens, capabilities = {}, {}
        for role, clients in self._roles.items():
            tokens[role] = asdict(sum((client.usage for client in clients), Usage()))
            shown = {}
            for client in clients:
                # vLLM can do all.
                if client in self._attached or client.capabilities != ALL:
                    words = client.capabilities.as_words() | client.naming
                    shown[f"{client.url}#{client.model}"] = words
            if shown:
                capabilities[role] = shown
        return {"tokens": tokens, "capabilities": capabilities}

    # Places

    def place(
        self, models: Iterable[Model], before: Servers | None = None
    ) -> Placement:
        needed = self._needed(models)
        self._needs = needed
        places: Places = {}
        if isinstance(before, Engines):
            places = self._take_places(before, needed)
        asleep = [process for process in needed if process.is_asleep]
        if asleep:
            places = self._choose_beside(asleep, needed)
            if not places:
                self.stop()
        if not places:
            places = self._choose(needed, _devices(needed))
        for process, place in places.items():
            if not process.is_asleep:
                process.place = place
        return self.placement

    def _choose_beside(self, asleep: Iterable[EngineProcess], needed: Needs) -> Places:
        """Places of the engines while some of them sleep; none if those have to stop.

        A sleeping engine comes back to the place that it left, and takes no memory that the next
        candidate would otherwise have.
        """
        here = _devices(needed)
        if here.used > SPARE:
            return {}
        try:
            places = self._choose(needed, here)
        except UserError:
            return {}
        are_back = all(_is_back_in(process, places[process]) for process in asleep)
        return places if are_back else {}

    def _choose(self, needed: Needs, here: Devices) -> Places:
        request = self._settings.placement
        self.placement = choose(here, list(needed.values()), request)
        places = {}
        for (process, need), place in zip(
            needed.items(), self.placement.places, strict=True
        ):
            # A probe reaches one copy, and says nothing of how the others came back.
            is_single = place.copies * need.parallel.copies == 1
            may_sleep = is_single and place.turn > 0 and request.candidates > 1
            # Other GPUs than those known here may lack what sleeping needs.
            is_able = here.kind == "gpu" and ENGINE.can_sleep(process.spec)
            can_sleep = may_sleep and is_able
            places[process] = replace(place, can_sleep=can_sleep)
        return places

    def _take_places(self, before: Engines, needed: Needs) -> Places:
        """Stop engines that are not needed; the others keep the assignments of the run before."""
        settled = {
            process: need
            for process, need in before._needs.items()
            if process in before._started
        }
        places = places_to_keep(settled, needed)
        self._kept = [process for process in places if process.is_running()]
        sleepers = [] if self._kept else _able_to_sleep(settled, needed)
        # Stop these first, so that there is room for the others.
        for engines in (before, self):
            engines.stop(but=[*self._kept, *sleepers])
        for process in sleepers:
            try:
                process.sleep()
            except EngineFaultError:
                process.stop()  # and it starts again, as an engine that cannot sleep
        if not self._kept:
            return {}
        names = ", ".join(need.name for need in needed.values())
        why = f"{names}, in the places of the run before, which needed as much"
        self.placement = replace(before.placement, why=why)
        return places

    def _needed(self, models: Iterable[Model]) -> Needs:
        """The engines of these models, with what they need for all their roles in the run."""
        specs = _specs(models)
        whole = needs_of([self._settings.candidate], self._settings.judges)
        return {
            process: whole[spec]
            for spec, process in self._engines.items()
            if spec in specs
        }

    # Starts and stops

    def start(self, say: Say, turn: int = 0) -> None:
        self._turn = turn
        kept, self._kept = self._kept, []
        asleep = [process for process in self._needs if process.is_asleep]
        self.stop(but=[*kept, *asleep])
        for process in kept:
            say(f"vLLM goes on for {process.spec.model} (log: {process.log})")
            self._add(process)
        for process in asleep:
            if process.place.turn == turn and self._is_woken(process, say):
                kept.append(process)
        self._start(
            [process for process in self._of_turn() if process not in kept], say
        )

    def _is_woken(self, process: EngineProcess, say: Say) -> bool:
        """Wake an engine; False if it did not come back, and has to start again."""
        begun = time.monotonic()
        try:
            process.wake()
        except EngineFaultError as fault:
            say(
                f"vLLM did not come back to its GPU and starts again: "
                f"{process.spec.model} ({fault})"
            )
            process.stop()
            return False
        seconds = time.monotonic() - begun
        say(f"vLLM is back on its GPU after {seconds:.1f} s: {process.spec.model}")
        self._add(process)
        return True

    def _start(self, engines: Sequence[EngineProcess], say: Say) -> None:
        """Start engines and wait until they are ready.

        Engines that share a GPU load one after the other unless the size of each one's cache is
        given: two that measure the memory at once fail. One that does not get the memory planned
        for it starts again once the others are ready, and then measures what there is.
        """
        groups = [engines]
        if self._must_load_alone(engines):
            groups = [[process] for process in engines]
        for group in groups:
            for process in group:
                if not process.is_running():
                    self._launch(process, say)
            for process in self._await(group, say):
                say(
                    f"vLLM did not get the memory planned for "
                    f"{process.spec.model}: it starts again and measures what is there"
                )
                process.place = replace(process.place, cache=None)
                self._launch(process, say)
                process.wait_ready(self._settings.start_timeout, say)
                self._add(process)

    def _await(
        self, group: Sequence[EngineProcess], say: Say
    ) -> Sequence[EngineProcess]:
        """Wait until engines are ready; return those that did not get the memory planned for them.

        All are looked at in turn, so that one that ends is not noticed only once another is ready.
        """
        loading, refused = list(group), []
        while loading:
            for process in tuple(loading):
                try:
                    if not process.is_ready(self._settings.start_timeout, say):
                        continue
                    self._add(process)
                except OutOfMemoryError:
                    asleep = [other for other in self._needs if other.is_asleep]
                    if not asleep and process.place.cache is None:
                        raise
                    for other in asleep:
                        other.stop()
                    refused.append(process)
                loading.remove(process)
            if loading:
                time.sleep(POLL)
        return refused

    def _launch(self, process: EngineProcess, say: Say) -> None:
        process.log = self._logs[process.spec]  # a run before may have started it
        say(f"starting vLLM for {process.spec.model} (log: {process.log})")
        with self._launching:
            if self._is_closed:
                raise EngineStartError("the session has ended: no engine is started")
            process.launch()

    def _add(self, process: EngineProcess) -> None:
        if process not in self._started:
            self._started.append(process)

    def _of_turn(self) -> list[EngineProcess]:
        return [process for process in self._needs if process.place.turn == self._turn]

    def _must_load_alone(self, engines: Sequence[EngineProcess]) -> bool:
        if (
            vllm.runs_on_cpu()
            or self.placement.kind == "split"
            or _have_own_gpus(engines)
        ):
            return False
        for process in engines:
            is_sized = (
                process.place.cache is not None
                or ENGINE.parallel(process.spec.args).has_cache
            )
            if not is_sized:
                return True
        return False

    async def ready(self, models: Iterable[Model] | None = None) -> None:
        awaited = self._of_turn()
        if models is not None and not self._must_load_alone(awaited):
            specs = _specs(models)
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
                        self._require_first_death(process, say)
                        if process.is_out_of_memory():
                            process.place = replace(process.place, cache=None)
                    await asyncio.to_thread(self._start, dead, lambda line: None)

    def _require_first_death(self, process: EngineProcess, say: Say) -> None:
        """Say that an engine is being restarted; EngineDiedError if it was restarted before."""
        if process in self._restarted:
            words = "ended during the run for the second time"
            raise EngineDiedError(process.report(words)) from None
        self._restarted.add(process)
        say(
            f"vLLM ended during the run and was started again, "
            f"once: {process.spec.model}; what it had not answered was asked again "
            f"(log: {process.log})"
        )

    async def _watched(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work; raise EngineDiedError as soon as a started engine ends."""
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
        ending = [process for process in self._engines.values() if process not in but]
        # All end at the same time: whoever stopped the run may not wait long.
        for process in ending:
            process.ask_to_end()
        for process in ending:
            process.stop()

    def close(self) -> None:
        with self._launching:
            self._is_closed = True
        self.stop()


def _specs(models: Iterable[Model]) -> dict[EngineSpec, None]:
    """The specs of the engines for these models, in order and without repeats."""
    served = (model for model in models if isinstance(model, Served))
    return dict.fromkeys(map(EngineSpec.of, served))


def needs_of(
    candidates: Iterable[Model], judges: Iterable[Model]
) -> dict[EngineSpec, EngineNeed]:
    """What the engines of these models need, with both roles for one that serves both."""
    answering, judging = _specs(candidates), _specs(judges)
    needs: dict[EngineSpec, EngineNeed] = {}
    for model in (*candidates, *judges):
        if not isinstance(model, Served):
            continue
        spec = EngineSpec.of(model)
        revision, cache = ENGINE.weights_at(spec.args)
        size = weights.weights_gib(spec.model, revision, cache)
        about = model_files.configuration(model)
        if size and not about:
            about = weights.configuration_on_hub(spec.model, revision)
        parallel = ENGINE.parallel(spec.args)
        needs[spec] = EngineNeed(
            spec.model,
            parallel,
            size,
            answers=spec in answering,
            judges=spec in judging,
            classifies=model_files.classes(model) is not None,
            vocabulary=model_files.vocabulary(about),
            is_mixture=model_files.is_mixture(about),
            is_halved=not parallel.is_unusual and model_files.are_32_bits(about),
        )
    return needs
