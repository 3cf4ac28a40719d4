"""Candidate and judge on one engine: every way to do the same work, by turns.

Each turn starts the engine and stops it again, so that each way has the whole machine for itself,
a GPU's memory included.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from refusal_checks.engines.engine import Assignment, EngineSpec
from refusal_checks.models.names import Served
from tools.speed import verdicts
from tools.speed.bare import Bare
from tools.speed.gate import Evaluated, Gate, Recorded, running, warm
from tools.speed.offline import Job
from tools.speed.original import Original
from tools.speed.subject import Subject
from tools.speed.table import Ratio
from tools.speed.turns import Turns, say
from tools.speed.workload import Request, Workload

START = "start of the engine"

AT_ONCE = (64, 256)
"""Connections of the bare client that are tried."""


@dataclass(frozen=True)
class Works:
    """What is measured; None is left out.

    Attributes:
        even: for (a), (b) and (c); mixed: for (c) and (d); original: for (c) and (e).
        verdicts: whether the judge is measured alone, on the answers to ``even``.
    """

    even: Workload | None
    mixed: Workload | None
    original: Workload | None
    verdicts: bool = True

    @property
    def all(self) -> list[Workload]:
        """The work that is done."""
        return [work for work in (self.even, self.mixed, self.original) if work]


class OneEngine:
    """The measurements of a subject.

    Args:
        loop: the original's loop.
    """

    def __init__(self, subject: Subject, works: Works, loop: Original) -> None:
        self.turns = Turns()
        self._subject = subject
        self.works = works
        self._loop = loop
        self._connections: dict[str, int] = {}

    def turn(self) -> None:
        """Measure everything once."""
        even: Sequence[Request] = ()
        original: Sequence[Request] = ()
        works, turns = self.works, self.turns
        with (
            tempfile.TemporaryDirectory() as name,
            running(self._subject, Path(name)) as gate,
        ):
            turns.add(START, gate.seconds)
            warm(gate, works.all[0])
            if works.even:
                even = self._even(gate, works.even)
            if works.mixed:
                done = self._gate(gate, works.mixed)
                gate.forget()
                turns.add("mixed (d)", Bare(gate.servers).barriers(done.requests))
            if works.original:
                original = self._gate(gate, works.original).requests
        if even:
            turns.add("even (a)", self._offline(even))
        if original:
            self._original(original)

    def _gate(self, gate: Gate, work: Workload) -> Evaluated:
        gate.forget()
        done = gate.evaluate(work)
        say(f"  {work.name}: {done.tokens}")
        self.turns.add(f"{work.name} (c)", done.seconds)
        return done

    def _even(self, gate: Gate, work: Workload) -> Sequence[Request]:
        done, bare = self._gate(gate, work), Bare(gate.servers)
        best = self._best(gate, bare, done.requests)
        gate.forget()
        self.turns.add("even (b)", bare.floor(done.requests, best))
        if self.works.verdicts:
            exchanges = verdicts.distinct(done.records)
            first, again = verdicts.rates(gate, work, exchanges)
            say(f"  {len(exchanges)} distinct answers")
            self.turns.add("verdicts a second, distinct answers", first)
            self.turns.add("verdicts a second, prefixes cached", again)
        return done.requests

    def _best(self, gate: Gate, bare: Bare, requests: Sequence[Request]) -> int:
        """The connections with which the bare client is fastest, tried in the first turn."""
        if not self._connections:
            took = {}
            for at_once in AT_ONCE:
                gate.forget()
                took[at_once] = bare.floor(requests, at_once)
            self._connections["best"] = min(took, key=took.__getitem__)
            say(
                f"  bare requests at once, s: { {n: round(t, 1) for n, t in took.items()} }"
            )
        return self._connections["best"]

    def _offline(self, requests: Sequence[Request]) -> float:
        """Seconds of (a); models of different weights one after the other."""
        subject = self._subject
        jobs: dict[EngineSpec, list[Request]] = {}
        for request in requests:
            model = subject.judge if request.is_judge else subject.candidate
            assert isinstance(model, Served)
            jobs.setdefault(EngineSpec.of(model), []).append(request)
        place = alone(subject)
        done = [
            Job(spec, place, [[r.body for r in found]]).done()
            for spec, found in jobs.items()
        ]
        say(f"  offline: {sum(one.output for one in done)} tokens")
        return sum(one.seconds for one in done)

    def _original(self, requests: Sequence[Request]) -> None:
        answers, judged = self._loop.done(requests)
        say(
            f"  (e): {answers.output} tokens of answers, {judged.output} of verdicts on "
            f"{judged.prompt} of prompts"
        )
        turns = self.turns
        turns.add("original (e)", answers.seconds + judged.seconds)
        turns.add("two loads of (e)", answers.load + judged.load)
        turns.add("original (e) with its loads", answers.wall + judged.wall)
        turns.add(
            "original (c) with its load", turns.last(START) + turns.last("original (c)")
        )

    def ratios(self) -> list[Ratio]:
        """What the turns say."""
        works, on = self.works, self._subject.engines
        loop = "" if self._loop.reuse else ", no reuse"
        wanted = [
            ("(c) / (a)", works.even, ("even (c)", "even (a)")),
            ("(c) / (b)", works.even, ("even (c)", "even (b)")),
            ("(d) / (c)", works.mixed, ("mixed (d)", "mixed (c)")),
            (f"(e) / (c){loop}", works.original, ("original (e)", "original (c)")),
            (
                f"(e) / (c), with loading{loop}",
                works.original,
                ("original (e) with its loads", "original (c) with its load"),
            ),
        ]
        return [
            ratio
            for name, work, ways in wanted
            if work
            for ratio in self.turns.ratio(name, (work.name, on), ways)
        ]


def alone(subject: Subject) -> Assignment:
    """Where the candidate's engine would run if it were the only one."""
    with tempfile.TemporaryDirectory() as name:
        engines = Recorded(subject.pool, Path(name))
        return engines.place([subject.candidate]).places[0]
