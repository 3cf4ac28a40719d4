"""Measure what the gate adds to a server's time, against a bare client and without a model.

The bare client sends the same requests, reads the replies, and does nothing with them. Both are
measured in turns, in seconds and in CPU seconds of this process; the endpoint runs in its own
process.

``python -m tools.measure.bookkeeping PROMPTS [--samples K] [--turns T] [--profile FILE]``;
``--profile`` profiles one more evaluation; read FILE with ``python -m pstats``. ``--faults SHARE``
measures the gate alone, at a server that breaks this share of its requests, and counts the answers
without a verdict.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp

from refusal_checks.core.judgements import Binary
from tools.measure.gate import BENCHMARK, Spent, evaluated
from tools.measure.instant import instant_server
from tools.measure.plain import prompts
from tools.measure.printing import by_turns, circumstances, say

INSTRUCTIONS = "x" * 4000
"""As long as a judge's."""

AT_ONCE = 256
"""Requests in flight."""

Body = dict[str, object]


def gate(url: str, count: int, samples: int) -> Spent:
    """Run the gate on this many prompts."""
    model = f"{url}#instant"
    with tempfile.TemporaryDirectory() as name:
        keys = {"sampling.samples": samples}
        return evaluated(Path(name), prompts(count), model, model, keys)


def bare(url: str, count: int, samples: int) -> tuple[float, float]:
    """Return seconds and CPU seconds of a client that only sends the same requests."""
    requests = bodies(count, samples)
    cpu = time.process_time()
    begun = time.monotonic()
    asyncio.run(send(url, requests))
    return time.monotonic() - begun, time.process_time() - cpu


def bodies(count: int, samples: int) -> list[Body]:
    """Request bodies: for answers to each prompt, and for the verdict on each answer."""
    requests: list[Body] = []
    for prompt in prompts(count):
        question = {"role": "user", "content": prompt}
        requests.append({"model": "instant", "messages": [question], "n": samples})
        shown = [{"role": "system", "content": INSTRUCTIONS}, question]
        for _ in range(samples):
            verdict: Body = {"model": "instant", "messages": shown}
            requests.append(verdict | {"response_format": {}})
    return requests


async def send(url: str, requests: Sequence[Body]) -> None:
    """Send all requests, ``AT_ONCE`` at a time."""
    connector = aiohttp.TCPConnector(limit=AT_ONCE)
    endless = aiohttp.ClientTimeout(total=None, sock_connect=None)
    async with aiohttp.ClientSession(connector=connector, timeout=endless) as session:

        async def post(body: Body) -> None:
            async with session.post(f"{url}/chat/completions", json=body) as reply:
                reply.raise_for_status()
                await reply.read()

        await asyncio.gather(*(post(body) for body in requests))


def figures(count: int, samples: int, turns: int) -> dict[str, list[float]]:
    """Measure both in turns; return seconds and their ratios."""
    measured: dict[str, list[float]] = {}
    with instant_server() as url:
        for number in range(turns):
            spent = gate(url, count, samples)
            if number == 0:
                # Before the bare client, which holds all its requests at once.
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                measured["peak memory of the gate, MiB"] = [peak]
            seconds, cpu = bare(url, count, samples)
            row = {
                "gate, seconds": spent.seconds,
                "bare client, seconds": seconds,
                "gate / bare client, seconds": spent.seconds / seconds,
                "gate / bare client, CPU seconds": spent.cpu / cpu,
                "records a second": count * samples / spent.seconds,
            }
            say(f"turn {number + 1} of {turns}: {spent.seconds:.1f} / {seconds:.1f} s")
            for name, value in row.items():
                measured.setdefault(name, []).append(value)
    return measured


def faulty(count: int, samples: int, faults: float) -> None:
    """Run the gate at a server that breaks requests, and print what it lost and took."""
    with instant_server(faults) as url, tempfile.TemporaryDirectory() as name:
        model = f"{url}#instant"
        keys = {"sampling.samples": samples}
        spent = evaluated(Path(name), prompts(count), model, model, keys)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        records = spent.result.records(BENCHMARK)
        valid = sum(isinstance(record.judgement, Binary) for record in records)
    say(
        f"{count * samples} answers, {faults:.0%} of the requests broken: "
        f"{count * samples - valid} without a verdict; {spent.seconds:.1f} s, "
        f"{spent.cpu:.1f} CPU seconds, {peak:.0f} MiB at most"
    )


def profile(count: int, samples: int, file: Path) -> None:
    """Profile one evaluation, and print where most of its time is spent."""
    profiler = cProfile.Profile()
    with instant_server() as url:
        profiler.runcall(gate, url, count, samples)
    profiler.dump_stats(file)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main() -> None:
    """Parse the command line, measure, and print."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.measure.bookkeeping", description=__doc__
    )
    parser.add_argument("prompts", type=int)
    parser.add_argument("--samples", type=int, default=5, metavar="K")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--profile", type=Path, metavar="FILE")
    parser.add_argument("--faults", type=float, metavar="SHARE")
    given = parser.parse_args()
    say(circumstances("tools.measure.bookkeeping"))
    if given.faults is not None:
        faulty(given.prompts, given.samples, given.faults)
        return
    found = figures(given.prompts, given.samples, given.turns)
    say("\n" + by_turns(f"{given.prompts} prompts, K = {given.samples}", found, 2))
    if given.profile:
        profile(given.prompts, given.samples, given.profile)


if __name__ == "__main__":
    main()
