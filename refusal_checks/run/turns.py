"""Turns of a run's engines: start those that fit at the same time, and do their work."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack

from refusal_checks.engines.servers import Servers, Work
from refusal_checks.models.model_names import CandidateModel
from refusal_checks.run.concurrency import gather_or_cancel
from refusal_checks.run.recorder import Recorder

STARTING = "starting the engines"


class EngineTurns:
    """Does a run's work while the engines that it needs are up.

    Where all engines fit into the devices at once, there is one turn. Else there are two: the
    candidate's engine answers and stops before the judges' engines start.

    Attributes:
        has_begun: True once the engines of the first turn have started.
        seconds: how long the work took, from when the candidate could be asked; None before.
    """

    def __init__(
        self, servers: Servers, candidate: CandidateModel, recorder: Recorder
    ) -> None:
        self._servers = servers
        self._candidate = candidate
        self._recorder = recorder
        self._asked_since: float | None = None
        self.has_begun = False
        self.seconds: float | None = None

    async def do(self, *, answer: Work, judge: Work) -> None:
        """Do all work of the run.

        Args:
            answer: gets all answers; only done if the engines take turns.
            judge: gets the answers that are missing, and judges all.

        Raises:
            EngineStartError: an engine did not start.
            EngineDiedError: an engine ended for the second time.
        """
        async with AsyncExitStack() as stack:
            for client in self._servers.clients:
                await stack.enter_async_context(client)
            try:
                if self._servers.placement.turns == 1:
                    # The candidate answers while the judges' engines still load.
                    await gather_or_cancel(self._start(0), self._work(judge))
                else:
                    await gather_or_cancel(self._start(0), self._work(answer))
                    await self._start(1)
                    await self._work(judge)
            except BaseException:
                # A thread starts engines, and no cancellation reaches it: without this, leaving
                # the event loop would wait until they are ready.
                self._servers.close()
                raise
            finally:
                if self._asked_since is not None:
                    self.seconds = round(time.monotonic() - self._asked_since, 3)

    async def _start(self, turn: int) -> None:
        """Start the engines of a turn; work waits for those that it needs."""
        progress = self._recorder.progress
        progress.phase = STARTING
        try:
            await asyncio.to_thread(self._servers.start, self._recorder.say, turn)
        finally:
            if progress.phase == STARTING:  # else the judge is being checked already
                progress.phase = ""
        self.has_begun = True

    async def _work(self, work: Work) -> None:
        await self._servers.wait_until_ready([self._candidate])
        if self._asked_since is None:  # of the first turn
            self._asked_since = time.monotonic()
        await self._servers.run_with_restart(work, self._tell_restart)

    def _tell_restart(self, line: str) -> None:
        self._recorder.say(line)
        self._recorder.note(line)
