"""Measure the gate beside a user's script: ``python -m tools.measure.gpu --out FOLDER``.

Engines load at once, stay up, and are measured in turns, so that a GPU that is available for
minutes is enough; on a CPU, ``--prompts 8 --tokens 32`` tries the same. A model that fails or takes
too long says so and does not stop the others. Tables go to the terminal and to ``tables.md``, all
figures to ``figures.json``, whenever a model is done.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from refusal_checks.core.prompts import Message
from refusal_checks.core.records import Completion
from refusal_checks.core.sampling import Sampling
from refusal_checks.core.settings import RequestPace
from refusal_checks.models.client.client import Client, RequestParams
from refusal_checks.models.client.transport import ConnectionSettings
from tools.measure.gate import Job
from tools.measure.measured import SEQUENCES, Measured, weights
from tools.measure.plain import prompts
from tools.measure.printing import by_turns, circumstances, say
from tools.measure.standing import Standing

Figures = dict[str, list[float]]
"""Values of each figure, one for each turn."""

Note = Callable[[str, float], None]
"""Called with a figure's name and value as soon as it is measured."""

METRICS: Mapping[str, str] = {
    "without log-probabilities": "rejection_rate",
    "with log-probabilities": "refusal_confidence_rate",
}
"""What the gate bounds, by whether that needs log-probabilities."""

WARM = 8
"""Prompts of the requests that are not measured."""


@dataclass
class Machine:
    """The command line and the engines.

    Attributes:
        keep: writes the figures of the model that is measured.
        engines: by name of the model.
    """

    given: Namespace
    keep: Callable[[Figures], None] = field(default=lambda _: None)
    engines: dict[str, Standing] = field(default_factory=dict)

    def by_turns(self, measure: Callable[[Note], None]) -> Figures:
        """Measure several times, as long as the time allows."""
        figures: Figures = {}
        begun = time.monotonic()

        def note(name: str, value: float) -> None:
            figures.setdefault(name, []).append(value)
            say(f"  {name}: {value:.3f}")
            self.keep(figures)

        for _ in range(self.given.turns):
            if figures and time.monotonic() - begun > self.given.limit:
                break
            measure(note)
        return figures


def plain(machine: Machine, model: str) -> Figures:
    """Seconds for 1,000 tokens by the user's script and the gate, and their ratios."""
    engines, given = machine.engines[model], machine.given
    engines.wait_ready()
    requests = prompts(given.prompts)
    sampling = _sampling(given)
    # Kernels are compiled at first use.
    engines.script.run(requests[:WARM], sampling, given.limit)
    for metric in METRICS.values():
        _gate(engines, given, WARM, metric)

    def turn(note: Note) -> None:
        costs: dict[str, float] = {}
        for name, more in (("script", {}), ("seeded script", {"seed": 0})):
            seconds, tokens = engines.script.run(requests, sampling | more, given.limit)
            costs[name] = 1000 * seconds / tokens
            note(f"{name}, s for 1,000 tokens", costs[name])
        seconds, tokens = asyncio.run(_bare(engines, given))
        note("bare client, s for 1,000 tokens", 1000 * seconds / tokens)

        for way, metric in METRICS.items():
            name = f"gate, {way}"
            cost = _gate(engines, given, given.prompts, metric)
            note(f"{name}, s for 1,000 tokens", cost)
            for script, other in costs.items():
                note(f"{name} / {script}", cost / other)

    return machine.by_turns(turn)


def _sampling(given: Namespace) -> dict[str, object]:
    run = Sampling(max_tokens=given.tokens)
    names = ("temperature", "top_p", "top_k", "max_tokens")
    sampling: dict[str, object] = {name: getattr(run, name) for name in names}
    return sampling | {"n": given.samples}


async def _bare(engines: Standing, given: Namespace) -> tuple[float, int]:
    """Seconds and tokens of a client that sends the gate's requests and nothing else."""
    sampling = Sampling(samples=given.samples, max_tokens=given.tokens)
    params = RequestParams.from_sampling(sampling, n=given.samples)
    async with _client(engines) as client:
        begun = time.monotonic()
        await _answers(client, given.prompts, params)
        seconds = time.monotonic() - begun
        return seconds, client.usage.output


def _client(engines: Standing) -> Client:
    connection = ConnectionSettings(
        engines.server.api_key, pace=RequestPace(at_once=512)
    )
    return Client(engines.server.url, engines.model.path, connection=connection)


async def _answers(
    client: Client, count: int, params: RequestParams
) -> list[tuple[Completion, ...]]:
    return await asyncio.gather(
        *(client.chat(messages, params) for messages in _conversations(count))
    )


def _conversations(count: int) -> list[tuple[Message, ...]]:
    return [(Message("user", text),) for text in prompts(count)]


def _gate(engines: Standing, given: Namespace, count: int, metric: str) -> float:
    """Seconds for 1,000 tokens through the gate.

    The gate asks as it does a server of its own: as many prompts at once, on as many connections.
    """
    sequences = SEQUENCES
    keys = {
        "sampling.samples": given.samples,
        "sampling.max_tokens": given.tokens,
        "limits.in_flight": max(64, math.ceil(2 * sequences / given.samples)),
        "candidate.concurrency": 512,
    }
    job = Job(count, engines.candidate, metric, keys)
    seconds, tokens = job.run()
    return 1000 * seconds / tokens


def main() -> None:
    """Measure the models, one after the other, and write what is found."""
    given = _parser().parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    head = circumstances("tools.measure.gpu")
    say(head)
    report = _Report(given.out, head)
    machine = Machine(given)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        os.environ.setdefault("VLLM_CACHE_ROOT", str(folder / "cache"))
        for name in given.models:
            engines = Standing(Measured(name, weights(name)), given.out)
            machine.engines[name] = stack.enter_context(engines)
        for title in given.models:
            took = time.monotonic() - begun
            if took > given.seconds:
                report.add(title, f"left out after {took:.0f} s (--seconds)")
                continue
            say(f"{title} ({took:.0f} s)")
            machine.keep = partial(report.add, title, is_final=False)
            try:
                report.add(title, plain(machine, title))
            except Exception as fault:  # whatever stops one, the others are measured
                report.add(title, f"failed: {' '.join(str(fault).split())[-600:]}")
        for name, engines in machine.engines.items():
            starts = {key: [value] for key, value in engines.starts.items()}
            report.add(f"starts of {name}, all at once, seconds", starts)
    say(f"done after {time.monotonic() - begun:.0f} s")


class _Report:
    """Writes figures as they come."""

    def __init__(self, folder: Path, head: str) -> None:
        self._folder = folder
        self._head = head
        self._parts: dict[str, Figures | str] = {}

    def add(self, title: str, found: Figures | str, *, is_final: bool = True) -> None:
        self._parts[title] = found
        if is_final:
            say(_shown(title, found))
        tables = [self._head, *(_shown(*part) for part in self._parts.items())]
        (self._folder / "tables.md").write_text("\n\n".join(tables) + "\n")
        text = json.dumps({"circumstances": self._head, "parts": self._parts}, indent=1)
        (self._folder / "figures.json").write_text(text + "\n")


def _shown(title: str, found: Figures | str) -> str:
    if isinstance(found, str):
        return f"{title}: {found}"
    return by_turns(title, found, 3)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.measure.gpu",
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="FOLDER", help="for the figures")
    add(
        "--models",
        nargs="+",
        default=["demo:base"],
        metavar="MODEL",
        help="demo:NAME, a folder or ORG/MODEL",
    )
    add("--prompts", type=int, default=64)
    add("--samples", type=int, default=4, metavar="K")
    add("--tokens", type=int, default=256, help="of an answer, at most")
    add("--turns", type=int, default=2)
    add("--limit", type=float, default=40.0, help="seconds after which no turn begins")
    add("--seconds", type=float, default=320.0, help="after which no model begins")
    return parser


if __name__ == "__main__":
    main()
