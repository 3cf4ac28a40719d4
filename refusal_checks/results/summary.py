"""The summary of a run: everything known of it but the texts of its prompts and answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from refusal_checks.core import extensions
from refusal_checks.core.prompts import Kind
from refusal_checks.core.records import Record
from refusal_checks.core.text import clean
from refusal_checks.core.verdicts import Invalid, Reason
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges.trust.floors import JudgeCheck
from refusal_checks.metrics import (
    METRICS,
    rejection_rate,
)
from refusal_checks.metrics.statistics.intervals import Estimate, pooled
from refusal_checks.results.benchmark_summary import BenchmarkSummary, Figures
from refusal_checks.results.manifest import Manifest

JUDGE_QUOTED = "the judge answered, for example: "
"""How the one note begins that quotes a text."""


@dataclass
class RunSummary:
    """Figures, verdicts, notes and manifest of a run; filled while the run goes on.

    Attributes:
        verdicts: verdicts by id of the gate.
        errors: reasons why gates have no verdict, by id of the gate.
    """

    manifest: Manifest = field(default_factory=Manifest)
    benchmarks: dict[str, BenchmarkSummary] = field(default_factory=dict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # on how the verdicts came about
    failure: str = ""  # why the evaluation ended early; empty if it did not
    # what failed in the session and no verdict says why, such as tests: while there is something,
    # nothing is decided
    unexplained: list[str] = field(default_factory=list)
    judge: JudgeCheck | None = (
        None  # result of its own check; None if it was not checked
    )
    judge_idle: str = ""  # why there was nothing to check; empty if there was
    judge_error: str = ""  # why the check came to no result; empty if it did
    # why nothing tells how right the judges of refusal are, and what to do
    untested: str = ""
    # what is stored of a server and was not verified, though it may decide
    unverified: str = ""
    # what further judges judge by, whom no check tests, by benchmark; see ``VerdictBase.scale``
    untested_scales: dict[str, str] = field(default_factory=dict)
    # what judges of ratings made of answers whose order is known, by benchmark
    rated: dict[str, str] = field(default_factory=dict)
    # what to do about judges that could not judge, without any text of theirs
    unusable: list[str] = field(default_factory=list)
    balance: Balance | None = None
    # False alarms to expect if every figure lay exactly on its bound and nothing corrected for it:
    # gates called breached, and tests that fail.
    expected_breaches: float = 0.0
    expected_failures: float = 0.0

    def note(self, line: str) -> None:
        if line not in self.notes:
            self.notes.append(line)

    def note_unread(self, records: Sequence[Record], forms: Iterable[str]) -> None:
        """Add a note, once and at the top, that quotes an answer in which no verdict was found."""
        if any(note.startswith(JUDGE_QUOTED) for note in self.notes):
            return
        for record in records:
            judgement = record.judgement
            if not isinstance(judgement, Invalid):
                continue
            if judgement.reason is Reason.UNPARSABLE_VERDICT:
                expected = ", ".join(form for form in forms if form)
                quoted = f"'{clean(judgement.detail, 120)}'; expected {expected}"
                self.notes.insert(0, f"{JUDGE_QUOTED}{quoted}; asked twice")
                return


METRIC = rejection_rate.name
"""The metric of both kinds of refusal."""


@dataclass(frozen=True)
class Balance:
    """A run as one point of a plot; the best one is (0, 0)."""

    under_refusal: Estimate  # share of the safety prompts that are not rejected
    over_refusal: Estimate  # share of the sanity prompts that are rejected


def distinct(benchmarks: Mapping[str, BenchmarkSummary]) -> dict[str, BenchmarkSummary]:
    """Benchmarks without parts of others and those under attack: each prompt counts once."""
    parts: set[str] = set()
    for figures in benchmarks.values():
        parts.update(figures.parts)
    return {
        name: figures
        for name, figures in benchmarks.items()
        if name not in parts and not figures.attack
    }


def balance(
    benchmarks: Iterable[tuple[str, Figures]], confidence: float
) -> Balance | None:
    """Under-refusal and over-refusal of a run; None unless it has benchmarks of both kinds.

    Benchmarks, given by kind and figures, are pooled: every prompt counts the same.
    """
    rates: dict[str, list[Estimate]] = {}
    for kind, figures in benchmarks:
        if METRIC in figures:
            rates.setdefault(kind, []).append(figures[METRIC])
    if not {Kind.SAFETY.value, Kind.SANITY.value} <= rates.keys():
        return None
    refused = pooled(rates[Kind.SAFETY.value], confidence)
    over = pooled(rates[Kind.SANITY.value], confidence)
    under = Estimate(1 - refused.value, 1 - refused.upper, 1 - refused.lower, refused.n)
    return Balance(under, over)


def require_metrics(summary: RunSummary) -> None:
    """Raise ValueError if a gate is on a metric of an extension that is not loaded."""
    extensions.known()
    used = {verdict.gate.metric for verdict in summary.verdicts.values()}
    for name in sorted(used - METRICS.keys()):
        brought = ", ".join(summary.manifest.extensions) or "another version"
        raise ValueError(
            f"its metric {name} is not known here. Install the extension that has it, or load its "
            f"file with `refusal-checks --thresholds FILE ...`; the run used {brought}"
        )
