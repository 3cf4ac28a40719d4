"""Bounds that a bad model meets, and benchmarks without one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from refusal_checks.core import extensions
from refusal_checks.core.prompts import Kind
from refusal_checks.core.text import count, in_a_row
from refusal_checks.gates.bounds import reversed_bound
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.refusal import invalid_rate
from refusal_checks.results.benchmark_summary import BenchmarkSummary
from refusal_checks.results.reservations.reservation import (
    GatedRun,
    Reservation,
    are_many,
    reservation,
)


def doubtful_bounds(run: GatedRun) -> Iterator[Reservation]:
    """Bounds on the wrong side, and figures with too little evidence."""
    for verdict in run.own:
        hint = reversed_bound(verdict)
        if hint:
            yield reservation("bound-reversed", f"{verdict.gate.id}: {hint}")
    doubted = [verdict for verdict in run.own if verdict.passed and verdict.caution]
    if doubted:
        first = doubted[0]
        others = f" (and {len(doubted) - 1} more like it)" if len(doubted) > 1 else ""
        yield reservation(
            "little-evidence", f"{first.gate.id}: {first.caution}{others}"
        )


def sets_of_bounds(run: GatedRun) -> Iterator[Reservation]:
    """Benchmarks whose gates a bad model passes, taken together."""
    weak = []
    alone = _margins_alone(run)
    guards: dict[str, list[Verdict]] = {}
    for verdict in run.own:
        gate = verdict.gate
        if gate.has_bounds and not gate.allows_all and _guards(verdict):
            guards.setdefault(gate.benchmark, []).append(verdict)
    for name, verdicts in guards.items():
        figures = run.summary.benchmarks.get(name)
        strong = [verdict.gate for verdict in verdicts if not _is_weak(verdict)]
        # Where others have no bound at all, that is said instead.
        are_bounded = not _unbounded([verdict.gate for verdict in verdicts], figures)
        if not strong or (are_bounded and _unbounded(strong, figures)):
            weak.append(name)
    if weak:
        yield reservation(
            "bound-weak",
            f"raise the bounds of {in_a_row(weak)}: a model that does the wrong thing on most "
            "prompts meets them",
        )
    if alone:
        yield reservation(
            "margin-alone",
            f"add min or max to {in_a_row(alone)}: with a margin alone, two bad models pass one "
            "another",
        )
    if run.summary.errors or run.summary.manifest.gates.left_out:
        return  # gates that could not be evaluated, or were not selected, may be those
    kinds = {verdict.kind for verdict in run.own}
    if Kind.SAFETY in kinds and not kinds & {Kind.SANITY, Kind.RECOGNITION}:
        yield reservation(
            "only-safety",
            "add a gate on prompts that must be answered: a model that refuses everything passes",
        )
    if Kind.SAFETY not in kinds and kinds & set(Kind):
        yield reservation(
            "only-sanity",
            "add a gate on prompts that must be refused: a model that answers everything passes",
        )


def _margins_alone(run: GatedRun) -> list[str]:
    """The benchmarks with a margin that was checked, and without a bound."""
    compared = dict.fromkeys(
        verdict.gate.benchmark for verdict in run.own if verdict.comparison
    )
    bounded = {verdict.gate.benchmark for verdict in run.own if verdict.gate.has_bounds}
    return [name for name in compared if name not in bounded]


def _is_weak(verdict: Verdict) -> bool:
    """True if the right behaviour has a bound that less than half of it meets."""
    gate, metric = verdict.gate, METRICS[verdict.gate.metric]
    if verdict.kind not in set(Kind):
        return False
    guard = metric.guard(Kind(verdict.kind))
    if guard == "min":
        return gate.minimum is not None and metric.scaled(gate.minimum) < 0.5
    if guard == "max":
        return gate.maximum is not None and metric.scaled(gate.maximum) > 0.5
    return False


def gates_that_cannot_fail(run: GatedRun) -> Iterator[Reservation]:
    idle = [verdict.gate for verdict in run.verdicts if verdict.gate.allows_all]
    if idle:
        where = f"{idle[0].id} of {Path(idle[0].source).name} allows every figure"
        yield reservation(
            "gate-cannot-fail", f"{count(len(idle), 'gate')} cannot fail: {where}"
        )


def benchmarks_without_bounds(run: GatedRun) -> Iterator[Reservation]:
    """Benchmarks on which a model passes whatever it does, or does the worst that it can."""
    if run.summary.errors:
        return  # gates that could not be evaluated may be on these
    benchmarks = run.summary.benchmarks
    gated = {verdict.gate.benchmark for verdict in run.own}
    ungated = set()
    for verdict in run.verdicts:
        if not (verdict.kind == Kind.SENSITIVE and gated):
            ungated.add(verdict.gate.benchmark)
    ungated -= gated
    if ungated:
        names = ", ".join(sorted(ungated))
        yield reservation("no-bound", f"no gate on what the candidate does in {names}")

    for name in sorted(gated - set(_margins_alone(run))):
        verdicts = [verdict for verdict in run.own if verdict.gate.benchmark == name]
        worst, bound = "answers", "min"
        if any(verdict.kind == Kind.SANITY for verdict in verdicts):
            worst, bound = "refuses", "max"
        # One on the wrong side has a reservation of its own.
        guards = [v.gate for v in verdicts if _guards(v) or reversed_bound(v)]
        if not guards:
            yield reservation(
                "no-bound",
                f"write rejection_rate = {{ {bound} = ... }} in [{name}]: no gate fails a model "
                f"that {worst} everything",
            )
            continue
        if any(verdict.kind == Kind.SENSITIVE for verdict in verdicts):
            continue  # reported, and bounded only where a run file says so
        figures = benchmarks.get(name)
        unbounded = _unbounded(guards, figures)
        if figures and unbounded:
            yield reservation(
                "no-bound",
                f"write a bound on {guards[0].metric} into [{name}], too: {unbounded} of its "
                f"{figures.prompts} prompts have no bound",
            )


def _unbounded(gates: Sequence[Gate], figures: BenchmarkSummary | None) -> int:
    """Count a benchmark's prompts at which none of its gates looks; 0 if they are few."""
    if figures is None or any(gate.group_kind is None for gate in gates):
        return 0
    most = 0
    for kind, of_group in figures.groups.items():
        seen = set()
        for gate in gates:
            if gate.group_kind == kind and gate.is_on_every_group:
                seen |= of_group.keys() - set(gate.apart)
            elif gate.group_kind == kind:
                seen.add(str(gate.group))
        sizes = [of_group[name][invalid_rate.name].n for name in seen & of_group.keys()]
        most = max(most, sum(sizes))
    unbounded = figures.prompts - most
    return unbounded if are_many(unbounded, figures.prompts) else 0


def _guards(verdict: Verdict) -> bool:
    """True if a gate fails a model that does the worst, or nobody can say what that is."""
    if verdict.kind not in (Kind.SAFETY, Kind.SANITY):
        return True
    guard = METRICS[verdict.gate.metric].guard(Kind(verdict.kind))
    return guard in verdict.gate.bounds


def untested_metrics(run: GatedRun) -> Iterator[Reservation]:
    """Benchmarks about which only the metrics of extensions decide."""
    names: dict[str, set[str]] = {}
    own: set[str] = set()
    for verdict in run.own:
        metric = METRICS[verdict.gate.metric]
        if extensions.origin(metric.score.__module__) != extensions.OWN:
            names.setdefault(verdict.gate.benchmark, set()).add(metric.name)
        elif _guards(verdict):
            own.add(verdict.gate.benchmark)
    for benchmark in sorted(names.keys() - own):
        metrics = ", ".join(sorted(names[benchmark]))
        yield reservation(
            "metric-untested",
            f"{metrics} alone decides about {benchmark}: a metric of an extension, which nothing "
            "tested",
        )
