"""Verdicts a second of a judge alone: on distinct answers, and on the same ones again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from tools.speed.gate import Gate
from tools.speed.workload import Workload

Exchange = tuple[Prompt, Completion]


def distinct(records: Sequence[Record]) -> list[Exchange]:
    """The judged exchanges, those with equal texts once."""
    found = {
        (record.prompt.request, record.completion.text): (
            record.prompt,
            record.completion,
        )
        for record in records
        if record.completion and record.completion.text.strip()
    }
    return list(found.values())


def rates(
    gate: Gate, work: Workload, exchanges: Sequence[Exchange]
) -> tuple[float, float]:
    """Verdicts a second with empty prefix caches, then again; no store holds any of them."""
    gate.forget()
    return asyncio.run(_rates(gate, work, exchanges))


async def _rates(
    gate: Gate, work: Workload, exchanges: Sequence[Exchange]
) -> tuple[float, float]:
    engines = gate.engines
    engines.work, engines.clients = None, []
    (judge,) = gate.judges(work)[next(iter(work.plan))]
    took: list[float] = []

    async def again() -> None:
        for _ in range(2):
            begun = time.monotonic()
            await asyncio.gather(*(judge.judge(*exchange) for exchange in exchanges))
            took.append(time.monotonic() - begun)

    async with AsyncExitStack() as stack:
        for client in engines.clients:
            await stack.enter_async_context(client)
        await engines.guard(again, print)
    return len(exchanges) / took[0], len(exchanges) / took[1]
