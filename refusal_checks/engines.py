"""The engines of one run: which are needed, who shares one, and how to reach them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

from refusal_checks import endpoint, engine
from refusal_checks.client import Client
from refusal_checks.engine import Engine, EngineSpec
from refusal_checks.identity import Model
from refusal_checks.models import Attached, Served
from refusal_checks.options import Options

WATCH = 1.0
"""Seconds between two looks at running engines."""


class Engines:
    """Candidate's and judges' engines; one for all that name the same model and arguments.

    Attributes:
        clients: the connections that were made, to be opened where they are used.
    """

    are_live = True

    def __init__(self, options: Options, folder: Path) -> None:
        self.clients: list[Client] = []
        self._options = options
        models = (options.candidate, *(judge.model for judge in options.judges))
        specs = list(dict.fromkeys(_spec(model) for model in models if isinstance(model, Served)))
        if specs:
            engine.require_vllm()
        self._engines = {
            spec: Engine(spec, folder / f"engine-{index}.log", index=index, count=len(specs))
            for index, spec in enumerate(specs)
        }

    def connect(self, model: Served | Attached, option: str, number: int = 1) -> Client:
        """A client for a model; a server that others run is asked for the model first.

        Args:
            option: the option that named the model, ``--candidate`` or ``--judge``.
            number: which of the models that this option named, from 1.

        Raises:
            ModelError: that server cannot be used.
        """
        if isinstance(model, Served):
            running = self._engines[_spec(model)]
            url, name, key = running.url, model.served_name, running.api_key
        else:
            key = _api_key(option, number)
            url, name = model.url, endpoint.find_model(model.url, model.model, key, option)
        connection = Client(
            url,
            name,
            api_key=key,
            template_kwargs=model.template_kwargs,
            reasoning_end=model.reasoning_end,
            timeout=self._options.limits.request_timeout,
        )
        self.clients.append(connection)
        return connection

    def start(self, models: Iterable[Model], say: Callable[[str], None]) -> None:
        """Start the engines of the models that are needed; returns when all are ready.

        On a CPU they load at the same time; on a GPU one after the other, since vLLM's memory
        profiling fails where two engines start at once.

        Raises:
            EngineStartError: one did not come up; all are stopped then.
        """
        needed = {_spec(model) for model in models if isinstance(model, Served)}
        engines = [found for spec, found in self._engines.items() if spec in needed]
        together = [engines] if engine.runs_on_cpu() else [[found] for found in engines]
        try:
            for group in together:
                self._start_group(group, say)
        except BaseException:
            self.stop()
            raise

    def _start_group(self, group: list[Engine], say: Callable[[str], None]) -> None:
        for found in group:
            say(f"starting vLLM for {found.spec.model} (log: {found.log})")
            found.launch()
        for found in group:
            found.wait_ready(self._options.limits.start_timeout, say)

    async def watch(self) -> None:
        """Return never; raise EngineDiedError when an engine that was started has ended."""
        started = [found for found in self._engines.values() if found.is_running()]
        while True:
            for found in started:
                found.require_running()
            await asyncio.sleep(WATCH)

    async def guard(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work; raises what it raises, or EngineDiedError when an engine has ended."""
        tasks = [asyncio.create_task(self.watch()), asyncio.create_task(work)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def stop(self) -> None:
        """Stop every engine that runs."""
        for found in self._engines.values():
            found.stop()


def _spec(model: Served) -> EngineSpec:
    return EngineSpec(model.path, model.args)


def _api_key(option: str, number: int) -> str:
    """The key for a server: the numbered model's own, the option's, or OpenAI's variable."""
    shared = endpoint.api_key_variable(option)
    own = shared.replace("_API_KEY", f"_{number}_API_KEY")
    found = (os.environ.get(name) for name in (own, shared, "OPENAI_API_KEY"))
    return next(filter(None, found), "")
