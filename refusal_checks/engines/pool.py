"""The engines of one run: which are needed, who shares one, where they run, how to reach them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import EngineDiedError, EngineStartError
from refusal_checks.core.settings import JudgeSampling, Limits, Sampling
from refusal_checks.engines import accounts, vllm
from refusal_checks.engines.base import EngineSpec, Say, Work
from refusal_checks.engines.placement import devices, weights
from refusal_checks.engines.placement.choice import choose
from refusal_checks.engines.placement.values import EngineNeed, Placement, PlacementRequest
from refusal_checks.engines.process import Engine
from refusal_checks.models.client.attaching import Attaching
from refusal_checks.models.client.client import Client
from refusal_checks.models.client.transport import Access
from refusal_checks.models.identity import Model
from refusal_checks.models.spec import Attached, Candidate, Extras, JudgeModel, Served

WATCH = 1.0
"""Seconds between two looks at running engines."""


@dataclass(frozen=True)
class PoolSettings:
    """The models of a run, and how their servers are placed and asked."""

    candidate: Candidate
    judges: tuple[JudgeModel, ...]
    limits: Limits
    sampling: Sampling
    judge_sampling: JudgeSampling
    placement: PlacementRequest = field(default_factory=PlacementRequest)


class Engines:
    """Candidate's and judges' engines; one for all that name the same model and arguments.

    Attributes:
        clients: the connections that were made, to be opened where they are used.
        placement: of the engines that the last ``place`` was asked for.

    Raises:
        UserError: the engines cannot be placed as the options say.
    """

    are_live = True

    def __init__(self, settings: PoolSettings, folder: Path) -> None:
        self.clients: list[Client] = []
        self._roles: dict[str, list[Client]] = {}
        self._attaching = Attaching(settings.limits, settings.sampling, settings.judge_sampling)
        self._settings = settings
        models = (settings.candidate, *settings.judges)
        specs = dict.fromkeys(_spec(model) for model in models if isinstance(model, Served))
        if specs:
            vllm.require_vllm()
        self._engines = {
            spec: Engine(spec, folder / f"engine-{index}.log") for index, spec in enumerate(specs)
        }
        self._started: list[Engine] = []
        self._restarted: set[Engine] = set()
        self._is_closed = False
        self._launching = threading.Lock()
        self.placement = self.place(models)

    def connect(self, model: Served | Attached, option: str, number: int = 1) -> Client:
        """A client for a model; a server that others run is asked for the model first.

        Args:
            option: the option that named the model, ``--candidate`` or ``--judge``.
            number: which of the models that this option named, from 1.

        Raises:
            ModelError: that server cannot be used.
        """
        if isinstance(model, Attached):
            connection = self._attaching.connect(model, option, number)
        else:
            running = self._engines[_spec(model)]
            connection = Client(
                running.url,
                model.served_name,
                extras=Extras((), model.template_kwargs, model.reasoning_end),
                access=Access(running.api_key, self._settings.limits.request_timeout),
            )
        self.clients.append(connection)
        self._roles.setdefault(option.lstrip("-"), []).append(connection)
        return connection

    def account(self) -> dict[str, Any]:
        """What the requests cost so far, and what servers that others run can do."""
        return {
            "tokens": accounts.tokens(self._roles),
            "capabilities": accounts.capabilities(self._attaching.clients),
        }

    def place(self, models: Iterable[Model]) -> Placement:
        """Choose where the engines of these models run; nothing is started yet.

        Raises:
            UserError: they cannot be placed as the options say.
        """
        needed = {_spec(model) for model in models if isinstance(model, Served)}
        found = [own for spec, own in self._engines.items() if spec in needed]
        here = devices.cpu if vllm.runs_on_cpu() else devices.gpus
        self.placement = choose(
            here() if found else devices.NONE,
            [self._demand(own.spec) for own in found],
            self._settings.placement,
        )
        for own, place in zip(found, self.placement.places, strict=True):
            own.place = place
        self._placed = found
        return self.placement

    def _demand(self, spec: EngineSpec) -> EngineNeed:
        candidate = self._settings.candidate
        judges = self._settings.judges
        return EngineNeed(
            spec.model,
            spec.args,
            weights.gib(spec.model, spec.args),
            answers=isinstance(candidate, Served) and _spec(candidate) == spec,
            judges=spec in [_spec(model) for model in judges if isinstance(model, Served)],
        )

    def start(self, say: Say, turn: int = 0) -> None:
        """Start the placed engines whose turn it is, and stop others; returns when all are ready.

        Raises:
            EngineStartError: one did not come up; all are stopped then.
        """
        self.stop()
        self._started = [own for own in self._placed if own.place.turn == turn]
        try:
            self._launch(self._started, say)
        except BaseException:
            self.stop()
            raise

    def _launch(self, engines: Sequence[Engine], say: Say) -> None:
        """Start engines, and wait for them.

        On a GPU that several share they load one after the other, since vLLM's memory profiling
        fails where two engines start at once.
        """
        at_once = vllm.runs_on_cpu() or self.placement.kind == "split"
        for group in [engines] if at_once else [[own] for own in engines]:
            for own in group:
                say(f"starting vLLM for {own.spec.model} (log: {own.log})")
                with self._launching:
                    if self._is_closed:
                        raise EngineStartError(
                            "the session has ended: no engine is started any more"
                        )
                    own.launch()
            for own in group:
                own.wait_ready(self._settings.limits.start_timeout, say)

    def require_running(self) -> None:
        """Raise EngineDiedError where an engine that was started has ended."""
        for own in self._started:
            own.require_running()

    async def guard(self, work: Work, say: Say) -> None:
        """Do the work; where an engine ends, start it again, once, and do the work again.

        Args:
            work: what is not to be repeated, it must itself remember.
            say: takes a line on each engine that was started again.

        Raises:
            EngineDiedError: an engine has ended for the second time.
            EngineStartError: one that has ended did not come up again.
        """
        while True:
            try:
                return await self._watched(work())
            except Exception:
                dead = [own for own in self._started if not own.is_running()]
                if not dead or self._is_closed:
                    raise
                await self._restart(dead, say)

    async def _watched(self, work: Coroutine[Any, Any, None]) -> None:
        tasks = [asyncio.create_task(work), asyncio.create_task(self._watch())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    return task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self) -> None:
        """Return never; raise EngineDiedError when an engine that was started has ended."""
        while True:
            self.require_running()
            await asyncio.sleep(WATCH)

    async def _restart(self, dead: Sequence[Engine], say: Say) -> None:
        for own in dead:
            if own in self._restarted:
                raise EngineDiedError(own.report("ended during the run for the second time"))
            self._restarted.add(own)
            say(
                f"vLLM ended during the run and was started again, once: {own.spec.model}; what "
                f"it had not answered was asked again (log: {own.log})"
            )
        await asyncio.to_thread(self._launch, dead, lambda line: None)

    def stop(self) -> None:
        """Stop every engine that runs."""
        self._started = []
        for own in self._engines.values():
            own.stop()

    def close(self) -> None:
        """Stop every engine that runs; none starts any more, whatever other threads are doing."""
        with self._launching:
            self._is_closed = True
        self.stop()


def _spec(model: Served) -> EngineSpec:
    return EngineSpec(model.path, model.args)
