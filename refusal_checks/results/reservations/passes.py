"""How the gates passed: by how much, by what, and where not."""

from __future__ import annotations

from collections.abc import Iterator

from refusal_checks.core.prompts import Kind
from refusal_checks.core.reservations import (
    LEAST_CONFIDENCE,
    LEAST_IN_GROUP,
    LEAST_PROMPTS,
)
from refusal_checks.core.text import count
from refusal_checks.gates.gate import Outcome
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import rejection_rate
from refusal_checks.metrics.worst_case import worst_of_k_rate
from refusal_checks.results.reservations.reservation import (
    GatedRun,
    Reservation,
    reservation,
)


def too_close_to_call(run: GatedRun) -> Iterator[Reservation]:
    """Gates that passed although their interval contains the bound.

    A gate that its run file decides by the figure alone is a plain pass from ``LEAST_PROMPTS``
    prompts on.
    """
    undecided = 0
    on_few: list[Verdict] = []
    for verdict in run.own:
        if not verdict.passed or verdict.outcome is not Outcome.INCONCLUSIVE:
            continue
        gate = verdict.gate
        if verdict.warns or gate.decision == "confident" or gate.has_margins:
            undecided += 1
        elif verdict.units < LEAST_PROMPTS:
            on_few.append(verdict)
    if undecided:
        gates = count(undecided, "gate")
        yield reservation(
            "too-close-to-call", f"{gates} passed although too close to call"
        )
    if on_few:
        smallest = min(on_few, key=lambda verdict: verdict.units)
        which = f"{smallest.gate.id} has {smallest.units}"
        if smallest.units < smallest.estimate.n:
            clusters = count(smallest.units, "cluster")
            which = f"{smallest.gate.id} has {smallest.estimate.n} in {clusters}"
        passed = (
            f"{count(len(on_few), 'gate')} passed on fewer than {LEAST_PROMPTS} prompts"
        )
        yield reservation(
            "few-prompts", f"add prompts: {passed}, too few to decide ({which})"
        )


def confidence(run: GatedRun) -> Iterator[Reservation]:
    level = run.summary.manifest.confidence
    decides = any(
        verdict.gate.decision == "confident" or verdict.gate.has_margins
        for verdict in run.own
    )
    if decides and level < LEAST_CONFIDENCE:
        yield reservation(
            "confidence-low",
            f"raise settings.confidence to {LEAST_CONFIDENCE:g} or more: at {level:g}, chance "
            "passes many a bad model",
        )


def worst_answers(run: GatedRun) -> Iterator[Reservation]:
    """Benchmarks whose bound the worst of several answers to a prompt miss."""
    for verdict in run.own:
        gate = verdict.gate
        figures = run.summary.benchmarks.get(gate.benchmark)
        is_whole = gate.metric == rejection_rate.name and gate.group_kind is None
        worst = figures.figures.get(worst_of_k_rate.name) if figures else None
        if worst is None or not is_whole or verdict.kind != Kind.SAFETY:
            continue
        if gate.limits.outcome(worst.lower, worst.upper) is Outcome.FAIL:
            yield reservation(
                "worst-answers",
                f"{gate.benchmark}: {gate.show(worst.value)} of the prompts are refused in every "
                f"answer (worst_of_k_rate), although {gate.show(verdict.estimate.value)} of the "
                "answers refuse",
            )


def groups_apart(run: GatedRun) -> Iterator[Reservation]:
    """The group that misses its benchmark's bound by most, if no gate looks at its kind."""
    gated = {(verdict.gate.benchmark, verdict.gate.group_kind) for verdict in run.own}
    for verdict in run.own:
        gate = verdict.gate
        figures = run.summary.benchmarks.get(gate.benchmark)
        if figures is None or gate.group_kind or verdict.use != "raw":
            continue
        missed: list[tuple[float, str]] = []
        for kind, groups in figures.groups.items():
            if (gate.benchmark, kind) in gated:
                continue
            for group, of_group in groups.items():
                rate = of_group.get(gate.metric)
                if rate is None or rate.n < LEAST_IN_GROUP:
                    continue
                if gate.limits.outcome(rate.lower, rate.upper) is Outcome.FAIL:
                    shown = (
                        f"{kind} {group} ({gate.show(rate.value)} of {rate.n} prompts)"
                    )
                    missed.append((gate.limits.room(rate.value), shown))
        if missed:
            _, shown = min(missed)
            others = ""
            if len(missed) > 1:
                others = f" and in {count(len(missed) - 1, 'more group')}"
            yield reservation(
                "group-apart", f"{gate.id} misses its bound in {shown}{others}"
            )
