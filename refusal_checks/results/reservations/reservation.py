"""A reservation, and what it is found in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refusal_checks.core.reservations import ONE_IN, RESERVATIONS, ReservationKind
from refusal_checks.core.text import clean
from refusal_checks.gates.verdict import Verdict
from refusal_checks.results.benchmark_summary import BenchmarkSummary
from refusal_checks.results.summary import RunSummary


@dataclass(frozen=True)
class Reservation:
    """A reason against relying on a yes.

    Attributes:
        id: its subject in kebab-case, the same in every run; see ``RESERVATIONS``.
        text: one line for people.
        accepted: until when and by whom the run file accepts it, and why; empty if it does not.
    """

    id: str
    kind: ReservationKind
    text: str
    accepted: str = ""

    @property
    def weighs(self) -> bool:
        """True if it is a reason against shipping that nobody accepted."""
        return self.kind == "unshown" and not self.accepted

    @property
    def line(self) -> str:
        """The text with who accepted it, or with the id by which it can be accepted."""
        if self.kind == "note":
            return f"note: {self.text}"
        if self.accepted:
            return f"{self.text} (accepted {self.accepted})"
        return f"{self.text} ({self.id})"


def reservation(name: str, text: str, length: int = 300) -> Reservation:
    """A reservation of ``RESERVATIONS``, its text made harmless and at most so long."""
    kind, _ = RESERVATIONS[name]
    return Reservation(name, kind, clean(text, length))


@dataclass(frozen=True)
class GatedRun:
    """A run's summary, and the verdicts that reservations are about.

    Attributes:
        verdicts: those that decided something.
        own: those on the candidate's figures, without gates on invalid answers or on disagreement
        between judges.
    """

    summary: RunSummary
    verdicts: Sequence[Verdict]
    own: Sequence[Verdict]

    @property
    def gated(self) -> dict[str, BenchmarkSummary]:
        """The benchmarks on whose answers the verdicts rest, without those only reported."""
        named = {verdict.gate.benchmark for verdict in self.own}
        gated = {}
        for name, figures in self.summary.benchmarks.items():
            if name in named:
                gated[name] = figures
        return gated


def are_many(part: int, whole: int) -> bool:
    return part > 0 and ONE_IN * part >= whole
