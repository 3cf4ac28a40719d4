"""The gate against its floors, by turns, on the same servers: the bare requests, and the old way.

``gate``: the gate's own evaluation, first request to last verdict. ``floor``: the very same
requests from a client that does nothing else. ``barriers``: the same requests benchmark by
benchmark, in batches, all answers before all verdicts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from refusal_checks import judges
from refusal_checks.core.settings import JudgeSampling, Sampling
from refusal_checks.core.store import Store
from refusal_checks.judges.base import JudgeSetup
from refusal_checks.models.candidates import ServedCandidate
from refusal_checks.models.client.client import Client
from refusal_checks.models.client.transport import Access, HttpTransport
from refusal_checks.models.spec import Extras
from refusal_checks.run.evaluate import Evaluation
from refusal_checks.run.plan import Plan, Task
from tests.speed.workload import Lengths, Recorder, Request
from tests.toy_model import MODEL_DIR

BATCH = 512
SAMPLES = 5


@dataclass(frozen=True)
class Server:
    """Where a model answers.

    Attributes:
        url: base URL, ending in ``/v1``.
    """

    url: str
    api_key: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """What every request carries."""
        return {"Authorization": f"Bearer {self.api_key}"}


class Pipeline:
    """One plan, and the servers of candidate and judge, which may be one.

    Args:
        in_flight: prompts that the gate evaluates at one time.
    """

    def __init__(
        self, candidate: Server, judge: Server, plan: Plan, in_flight: int, lengths: Lengths
    ) -> None:
        self._lengths = lengths
        self._in_flight = in_flight
        self._servers = (candidate, judge)
        self._plan = plan

    def gate(self, store: Path) -> tuple[float, list[Request]]:
        """Seconds of the gate's evaluation, and the requests that it made."""
        return asyncio.run(self._gate(store))

    async def _gate(self, path: Path) -> tuple[float, list[Request]]:
        texts = {prompt.request: name for name, found in self._plan.items() for prompt in found}
        inner = [HttpTransport(each.url, Access(each.api_key)) for each in self._servers]
        recorders = [
            Recorder(each, lengths, texts)
            for each, lengths in zip(inner, (self._lengths, None), strict=True)
        ]
        asked, asking = (
            Client(
                each.url,
                str(MODEL_DIR),
                extras=Extras(template_kwargs={"persona": name}),
                transport=recorder,
            )
            for each, name, recorder in zip(
                self._servers, ("aligned", "judge"), recorders, strict=True
            )
        )
        sampling = Sampling(samples=SAMPLES, max_tokens=self._lengths.most)
        candidate = ServedCandidate("candidate", asked, sampling, "candidate")
        setup = JudgeSetup(
            name="judge",
            client=asking,
            model_identity="judge",
            sampling=JudgeSampling(),
            template="demo",
            running=True,
            note=print,
        )
        panel = dict.fromkeys(self._plan, (judges.discover()["refusal"].build(setup),))
        async with inner[0], inner[1], asked, asking:
            with Store(path) as store:
                evaluation = Evaluation(
                    Task(self._plan, candidate, panel, store),
                    in_flight=self._in_flight,
                    finished=lambda name, records: None,
                )
                begun = time.monotonic()
                await evaluation.run()
                seconds = time.monotonic() - begun
        return seconds, [*recorders[0].requests, *recorders[1].requests]

    def floor(self, requests: Sequence[Request], at_once: int) -> float:
        """Seconds of the bare requests, so many of them at one time."""
        return asyncio.run(self._bare([requests], at_once))

    def barriers(self, requests: Sequence[Request]) -> float:
        """Seconds of the same requests with barriers."""
        stages = [
            batch
            for name in self._plan
            for is_judge in (False, True)
            for batch in _batches(requests, name, is_judge)
        ]
        return asyncio.run(self._bare(stages, BATCH))

    async def _bare(self, stages: Sequence[Sequence[Request]], at_once: int) -> float:
        connector = aiohttp.TCPConnector(limit=at_once)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            begun = time.monotonic()
            for stage in stages:
                await asyncio.gather(*(self._post(session, request) for request in stage))
            return time.monotonic() - begun

    async def _post(self, session: aiohttp.ClientSession, request: Request) -> None:
        server = self._servers[request.is_judge]
        url = f"{server.url}/chat/completions"
        async with session.post(url, json=request.body, headers=server.headers) as response:
            response.raise_for_status()
            await response.read()

    def forget(self) -> None:
        """Empty the servers' prefix caches, so that each way begins alike."""
        asyncio.run(self._forget())

    async def _forget(self) -> None:
        async with aiohttp.ClientSession() as session:
            for server in set(self._servers):
                url = f"{server.url.removesuffix('/v1')}/reset_prefix_cache"
                async with session.post(url, headers=server.headers) as response:
                    response.raise_for_status()


def _batches(requests: Sequence[Request], name: str, is_judge: bool) -> list[Sequence[Request]]:
    """One stage's requests of one benchmark, in batches."""
    found = [r for r in requests if r.benchmark == name and r.is_judge is is_judge]
    return [found[start : start + BATCH] for start in range(0, len(found), BATCH)]
