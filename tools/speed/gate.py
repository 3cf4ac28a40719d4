"""The gate's evaluation on engines that are up, and the requests that it makes."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp

from refusal_checks.core.records import Record
from refusal_checks.core.sampling import Sampling
from refusal_checks.core.settings import Limits
from refusal_checks.core.store import Store
from refusal_checks.core.verdicts import Invalid
from refusal_checks.engines.engine import EngineSpec
from refusal_checks.engines.pool import Engines
from refusal_checks.evaluation.assembly import judge_panels
from refusal_checks.evaluation.planning import Judges, Task, prompts_at_once
from refusal_checks.evaluation.stream import Evaluation
from refusal_checks.judges.panel import JudgingMethod
from refusal_checks.models.candidates import ServedCandidate
from refusal_checks.models.client.client import Client
from refusal_checks.models.client.usage import Usage
from refusal_checks.models.identity import model_identity
from refusal_checks.models.names import Attached, Replay, Served
from tools.speed.subject import Subject
from tools.speed.workload import Recorder, Request, Workload


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


@dataclass(frozen=True)
class Evaluated:
    """One evaluation.

    Attributes:
        seconds: from the first request to the last verdict.
        requests: all that were made, those for answers first.
        answers, verdicts: what they cost.
    """

    seconds: float
    requests: Sequence[Request]
    records: Sequence[Record]
    answers: Usage
    verdicts: Usage

    @property
    def tokens(self) -> str:
        """For people."""
        invalid = sum(isinstance(record.judgement, Invalid) for record in self.records)
        return (
            f"{self.answers.requests} requests for {len(self.records)} answers of "
            f"{self.answers.output} tokens, {self.verdicts.requests} for verdicts of "
            f"{self.verdicts.output} tokens on {self.verdicts.prompt} of prompts "
            f"({self.verdicts.cached} cached); {invalid} invalid"
        )


class Recorded(Engines):
    """The engines of a run, which tell where they answer, and record what is asked.

    Attributes:
        work: what is done next.
        recorders: of the clients made for it, by option.
    """

    work: Workload | None = None
    recorders: dict[str, Recorder]

    def connect(self, model: Served | Attached, option: str, number: int = 1) -> Client:
        """See ``Engines.connect``."""
        client = super().connect(model, option, number)
        if self.work:
            recorder = Recorder(
                client._transport, self.work, is_judge=option == "--judge"
            )
            self.recorders[option] = recorder
            client._transport = recorder
        return client

    def server(self, model: Served | Attached) -> Server:
        """Where a model answers."""
        if isinstance(model, Attached):
            return Server(model.url)
        process = self._engines[EngineSpec.of(model)]
        return Server(process.url, process.api_key)


class Gate:
    """The gate's evaluation of a subject whose engines are up.

    Attributes:
        servers: the candidate's and the judge's, which may be one.
        seconds: that the engines took to start.
    """

    def __init__(self, subject: Subject, engines: Recorded, seconds: float) -> None:
        self.subject = subject
        self.engines = engines
        self.seconds = seconds

    @property
    def servers(self) -> tuple[Server, Server]:
        """Where candidate and judge answer."""
        both = (self.subject.candidate, self.subject.judge)
        found = [
            self.engines.server(one)
            for one in both
            if isinstance(one, Served | Attached)
        ]
        return found[0], found[1]

    def evaluate(self, work: Workload) -> Evaluated:
        """Do some work as the gate does it, with an empty store."""
        with (
            tempfile.TemporaryDirectory() as folder,
            Store(Path(folder) / "store") as store,
        ):
            return asyncio.run(self._evaluate(work, store))

    async def _evaluate(self, work: Workload, store: Store) -> Evaluated:
        engines = self.engines
        engines.work, engines.recorders, engines.clients = work, {}, []
        task = Task(work.plan, self.candidate(work), self.judges(work), store)
        both = self.subject.candidate, self.subject.judge
        records: list[Record] = []
        evaluation = Evaluation(
            task,
            in_flight=prompts_at_once(
                Limits(), both, work.samples, copies=engines.placement.copies
            ),
            finished=lambda name, found: records.extend(found),
        )
        async with AsyncExitStack() as stack:
            for client in engines.clients:
                await stack.enter_async_context(client)
            begun = time.monotonic()
            await engines.guard(evaluation.run, print)
            seconds = time.monotonic() - begun
        candidate, judge = (
            engines.recorders[role] for role in ("--candidate", "--judge")
        )
        answers, verdicts = (client.usage for client in engines.clients)
        return Evaluated(
            seconds, [*candidate.requests, *judge.requests], records, answers, verdicts
        )

    def candidate(self, work: Workload) -> ServedCandidate:
        """The candidate, behind a client of its own."""
        model = self.subject.candidate
        assert not isinstance(model, Replay), "recorded answers take no time"
        client = self.engines.connect(model, "--candidate")
        identity = model_identity(model, client.model)
        sampling = Sampling(samples=work.samples, max_tokens=work.most)
        return ServedCandidate(model.name, client, sampling, identity)

    def judges(self, work: Workload) -> Judges:
        """The judge of all benchmarks, behind a client of its own."""
        ways = dict.fromkeys(work.plan, JudgingMethod("refusal"))
        return judge_panels(
            self.subject.judging, ways, self.engines, print, is_recorded=False
        )

    def forget(self) -> None:
        """Empty the servers' prefix caches, so that each way begins alike."""
        asyncio.run(self._forget())

    async def _forget(self) -> None:
        async with aiohttp.ClientSession() as session:
            for server in set(self.servers):
                url = f"{server.url.removesuffix('/v1')}/reset_prefix_cache"
                async with session.post(url, headers=server.headers) as response:
                    response.raise_for_status()


@contextmanager
def running(subject: Subject, folder: Path) -> Iterator[Gate]:
    """The engines of a subject, up, placed as the gate places them."""
    os.environ["VLLM_SERVER_DEV_MODE"] = "1"  # for /reset_prefix_cache
    engines = Recorded(subject.pool, folder)
    try:
        begun = time.monotonic()
        engines.start(lambda line: None)
        yield Gate(subject, engines, time.monotonic() - begun)
    finally:
        engines.close()


def warm(gate: Gate, work: Workload) -> None:
    """Two prompts, so that nothing is measured that an engine does only once."""
    name, prompts = next(iter(work.plan.items()))
    gate.evaluate(replace(work, plan={name: prompts[:2]}))
