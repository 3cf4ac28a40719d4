"""Judges put to answers that are there already: for calibration, and for the judges' own check."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from refusal_checks.assembly import judge_panels
from refusal_checks.candidates import Candidate
from refusal_checks.concurrency import prompts_at_once
from refusal_checks.database import MEMORY
from refusal_checks.engines import Engines
from refusal_checks.evaluate import Evaluation
from refusal_checks.options import Options
from refusal_checks.plan import Judges, Plan, pending
from refusal_checks.records import Record
from refusal_checks.store import Store


class Judging:
    """The run's judges over one plan of recorded answers.

    Args:
        kind: the way of judging, a module of ``judges``.
        candidate: gives the recorded answers.
        folder: where engines write their logs.
        say: shows one line to the user.

    Raises:
        ModelError: a judge, or its prompt, cannot be used; nothing has been started then.
    """

    def __init__(
        self,
        options: Options,
        kind: str,
        plan: Plan,
        candidate: Candidate,
        folder: Path,
        say: Callable[[str], None],
    ) -> None:
        self._options = options
        self._plan = plan
        self._candidate = candidate
        self._say = say
        self._engines = Engines(options, folder)
        self.judges: Judges = judge_panels(
            options, dict.fromkeys(plan, (kind, None)), self._engines, say
        )

    def run(self) -> dict[str, Sequence[Record]]:
        """The records by the plan's names, in the plan's order.

        Raises:
            EngineStartError, EngineDiedError, EndpointError: a judge's server is not there.
        """
        options = self._options
        found: dict[str, Sequence[Record]] = {}
        with Store(MEMORY if options.fresh else options.store) as store:
            if store.warning:
                self._say(store.warning)
            todo = pending(self._plan, self._candidate, self.judges, store)
            asked = [judge.model for judge in options.judges if judge.name in todo.judges]
            self._say(f"{todo.verdicts} verdicts to ask for at most")
            try:
                self._engines.place(asked)
                self._engines.start(self._say)
                asyncio.run(self._evaluate(store, found))
            finally:
                self._engines.stop()
        return {name: found[name] for name in self._plan}

    async def _evaluate(self, store: Store, found: dict[str, Sequence[Record]]) -> None:
        def evaluation() -> Coroutine[None, None, None]:
            return Evaluation(
                self._plan,
                self._candidate,
                self.judges,
                store,
                in_flight=prompts_at_once(self._options),
                finished=found.__setitem__,
            ).run()

        async with AsyncExitStack() as stack:
            for client in self._engines.clients:
                await stack.enter_async_context(client)
            await self._engines.guard(evaluation, self._say)
