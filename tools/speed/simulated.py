"""The gate and the old schedule on a model of a GPU, whose steps take as long however full."""

from __future__ import annotations

import tempfile
from pathlib import Path

from refusal_checks.models.names import parse_candidate, parse_judge
from tools.speed.bare import Bare
from tools.speed.gate import running
from tools.speed.overhead import instant_server
from tools.speed.subject import Subject
from tools.speed.table import Ratio
from tools.speed.turns import Turns
from tools.speed.workload import Lengths, mixed

STEP, SEQUENCES = 0.005, 256
"""Seconds of a step, and most sequences in one."""

PROMPTS = 40
"""Of each benchmark."""


def measure(spread: float, repeats: int) -> list[Ratio]:
    """The gate, the bare requests, and the requests with barriers, by turns."""
    work, turns = mixed(PROMPTS, 5, Lengths(spread=spread)), Turns()
    with (
        instant_server(str(STEP), str(SEQUENCES)) as url,
        tempfile.TemporaryDirectory() as name,
    ):
        subject = Subject(parse_candidate(url), parse_judge(url))
        with running(subject, Path(name)) as gate:
            for _ in range(repeats):
                done, bare = gate.evaluate(work), Bare(gate.servers)
                turns.add("(c)", done.seconds)
                turns.add("(b)", bare.floor(done.requests, SEQUENCES))
                turns.add("(d)", bare.barriers(done.requests))
    place = (f"mixed, spread {spread:g}", "a model of a GPU")
    return [
        *turns.ratio("(c) / (b)", place, ("(c)", "(b)")),
        *turns.ratio("(d) / (c)", place, ("(d)", "(c)")),
    ]
