"""CPU seconds of the evaluation alone and of the bare client, by turns in one process.

Other work on the machine moves them less than it does wall time. The endpoint, which answers at
once, is a process of its own and not counted.

``python -m tools.speed.cpu PROMPTS [--samples 5] [--turns 3] [--profile FILE]``
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, nullcontext
from pathlib import Path

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Record
from refusal_checks.core.sampling import JudgeSampling, Sampling
from refusal_checks.core.store import Store
from refusal_checks.evaluation.planning import LEAST, Task
from refusal_checks.evaluation.run import _RARELY
from refusal_checks.evaluation.stream import Evaluation
from refusal_checks.judges.judge import JudgeSetup
from refusal_checks.judges.kinds import refusal
from refusal_checks.models.candidates import ServedCandidate
from refusal_checks.models.client.client import Client
from tools.speed.circumstances import circumstances
from tools.speed.overhead import floor, instant_server
from tools.speed.table import markdown
from tools.speed.turns import say


def evaluate(url: str, prompts: int, samples: int) -> None:
    """Answer and judge prompts, all into a new store."""
    plan = {
        "big": [
            Prompt.single(f"{n}", f"How do I do thing number {n}?")
            for n in range(prompts)
        ]
    }
    records: list[Record] = []
    answering, judging = Client(url, "instant"), Client(url, "instant")
    judge = refusal.build(JudgeSetup("judge", judging, "identity", JudgeSampling()))
    sampling = Sampling(samples=samples)
    candidate = ServedCandidate("candidate", answering, sampling, "identity")

    async def run(store: Store) -> None:
        async with AsyncExitStack() as stack:
            for client in (answering, judging):
                await stack.enter_async_context(client)
            task = Task(plan, candidate, {"big": (judge,)}, store)
            done = lambda _, found: records.extend(found)  # noqa: E731
            await Evaluation(task, in_flight=LEAST, finished=done).run()

    with (
        tempfile.TemporaryDirectory() as folder,
        Store(Path(folder) / "store.sqlite") as store,
    ):
        asyncio.run(run(store))
    assert {record.judgement.verdict for record in records} == {"refusal"}
    assert len(records) == prompts * samples


def busy(work: Callable[[], object]) -> float:
    """CPU seconds of this process."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def main() -> None:
    """Parse the command line, measure, and print."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.speed.cpu", description=__doc__
    )
    parser.add_argument("prompts", type=int)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--profile", type=Path, metavar="FILE")
    given = parser.parse_args()
    gc.set_threshold(*_RARELY)  # as in a run
    records, rows = given.prompts * given.samples, list[tuple[float, float]]()
    with instant_server() as named:
        url = named.partition("#")[0]
        for _ in range(given.turns):
            with cProfile.Profile() if given.profile else nullcontext() as profile:
                gate = busy(lambda: evaluate(url, given.prompts, given.samples))
            if profile:
                profile.dump_stats(given.profile)
            bare = busy(lambda: floor(given.samples, records))
            rows.append((1e6 * gate / records, 1e6 * bare / records))
    head = ("microseconds of CPU a record", "by turns", "median")
    ways = {
        "evaluation": [gate for gate, _ in rows],
        "bare client": [bare for _, bare in rows],
    }
    cells = [
        (
            name,
            ", ".join(f"{each:.0f}" for each in found),
            f"{statistics.median(found):.0f}",
        )
        for name, found in ways.items()
    ]
    ratios = [gate / bare for gate, bare in rows]
    shown = (
        ", ".join(f"{each:.2f}" for each in ratios),
        f"{statistics.median(ratios):.2f}",
    )
    facts = circumstances("tools.speed.cpu")
    say("\n".join([*facts, "", markdown(head, [*cells, ("ratio", *shown)])]))


if __name__ == "__main__":
    main()
