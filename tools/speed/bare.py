"""The floor of the server, and the old schedule: recorded requests from a client that only sends.

``floor``: all at once, as far as a number of connections allows. ``barriers``: benchmark by
benchmark, in batches, all answers before all verdicts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

from tools.speed.gate import Server
from tools.speed.workload import Request

BATCH = 512
"""Prompts to answer, or answers to judge, at one time."""


@dataclass(frozen=True)
class Bare:
    """A client that sends requests, reads what comes, and does nothing with it.

    Attributes:
        servers: the candidate's and the judge's, which may be one.
    """

    servers: tuple[Server, Server]

    def floor(self, requests: Sequence[Request], at_once: int) -> float:
        """Seconds that the requests take, a given number of them at a time."""
        return asyncio.run(self._send([requests], at_once))

    def barriers(self, requests: Sequence[Request]) -> float:
        """Seconds of the same requests with barriers."""
        return asyncio.run(self._send(stages(requests), BATCH))

    async def _send(self, stages: Sequence[Sequence[Request]], at_once: int) -> float:
        # Idle connections end before the server ends them (uvicorn: after 5 s).
        connector = aiohttp.TCPConnector(limit=at_once, keepalive_timeout=3.0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout
        ) as session:
            begun = time.monotonic()
            for stage in stages:
                await asyncio.gather(
                    *(self._post(session, request) for request in stage)
                )
            return time.monotonic() - begun

    async def _post(self, session: aiohttp.ClientSession, request: Request) -> None:
        server = self.servers[request.is_judge]
        url = f"{server.url}/chat/completions"
        async with session.post(
            url, json=request.body, headers=server.headers
        ) as response:
            response.raise_for_status()
            await response.read()


def stages(requests: Sequence[Request]) -> list[Sequence[Request]]:
    """The batches of the old schedule, each of which waits for the one before it."""
    return [
        batch
        for name in dict.fromkeys(request.benchmark for request in requests)
        for is_judge in (False, True)
        for batch in batches(requests, name, is_judge)
    ]


def batches(
    requests: Sequence[Request], name: str, is_judge: bool
) -> list[Sequence[Request]]:
    """One kind of requests of one benchmark, in batches."""
    found = [r for r in requests if r.benchmark == name and r.is_judge is is_judge]
    return [found[start : start + BATCH] for start in range(0, len(found), BATCH)]
