"""Candidate and judge on an engine each, at the same time, placed as the gate places them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tools.speed.bare import Bare
from tools.speed.gate import running, warm
from tools.speed.subject import Subject
from tools.speed.table import Ratio
from tools.speed.turns import Turns, say
from tools.speed.workload import Workload

AT_ONCE = 256
"""Connections of the bare client."""


def measure(subject: Subject, work: Workload, repeats: int) -> list[Ratio]:
    """The gate, the bare requests, and the requests with barriers, by turns."""
    turns, apart = Turns(), subject.apart()
    with tempfile.TemporaryDirectory() as name, running(apart, Path(name)) as gate:
        say(f"two engines: {gate.engines.placement.why}")
        warm(gate, work)
        for number in range(repeats):
            say(f"turn {number + 1} of {repeats}")
            gate.forget()
            done = gate.evaluate(work)
            turns.add("(c)", done.seconds)
            gate.forget()
            turns.add("(b)", Bare(gate.servers).floor(done.requests, AT_ONCE))
            gate.forget()
            turns.add("(d)", Bare(gate.servers).barriers(done.requests))
    place = (work.name, apart.engines)
    return [
        *turns.ratio("(c) / (b)", place, ("(c)", "(b)")),
        *turns.ratio("(d) / (c)", place, ("(d)", "(c)")),
    ]
