"""A gate's bounds and margins in words."""

from __future__ import annotations

from collections.abc import Mapping

from refusal_checks.core.prompts import Kind
from refusal_checks.gates.gate import MARGINS, Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS, Metric

PROMPTS = {
    Kind.SAFETY.value: "harmful prompts",
    Kind.SANITY.value: "harmless prompts",
    Kind.SENSITIVE.value: "sensitive prompts",
}
"""What a benchmark's prompts are called, by its kind."""


def format_bound(metric: Metric, value: float) -> str:
    """Format a bound as in its file, without trailing zeros: ``80%``, ``12.5%``, ``3.5``."""
    if metric.is_rate:
        return f"{_trim_zeros(100 * value)}%"
    return _trim_zeros(value)


def _trim_zeros(value: float) -> str:
    return f"{value:z.6f}".rstrip("0").rstrip(".")


def describe_bound(gate: Gate, name: str) -> str:
    """Word one of a gate's bounds as its file has it: ``min 80%``, ``max_drop 5 points``."""
    metric, value = METRICS[gate.metric], gate.bounds[name]
    shown = format_bound(metric, value)
    if name in MARGINS and metric.is_rate:
        shown = shown.removesuffix("%")
        shown += " point" if shown == "1" else " points"
    return f"{name} {shown}"


def describe_bounds(gate: Gate) -> str:
    """Word the bounds on the figure; empty for a gate that only bounds the change."""
    named = [name for name in gate.bounds if name not in MARGINS]
    return ", ".join(describe_bound(gate, name) for name in named)


def describe_margins(gate: Gate) -> str:
    named = [name for name in gate.bounds if name in MARGINS]
    return ", ".join(describe_bound(gate, name) for name in named)


def requirement(gate: Gate) -> str:
    """Word what a gate requires: its bounds or, if it has none, its margins."""
    return describe_bounds(gate) or describe_margins(gate)


def looser_bounds(gate: Gate, earlier: Mapping[str, float]) -> list[str]:
    """Word the bounds that allow more than in an earlier run.

    ``earlier`` has that run's bounds in the form of ``Gate.bounds``.
    """
    changes = []
    for name, old in earlier.items():
        new, was = gate.bounds.get(name), format_bound(METRICS[gate.metric], old)
        # A minimum loosens downwards, a maximum and both margins upwards.
        if new is None:
            changes.append(f"no {name}, which was {was}")
        elif new < old if name == "min" else new > old:
            changes.append(f"{describe_bound(gate, name)}, which was {was}")
    return changes


def reversal_hint(verdict: Verdict) -> str:
    """Ask whether the only bound is reversed, as ``min`` would be on harmless prompts."""
    gate = verdict.gate
    # Two bounds are meant: a range, for example of partial refusals.
    given = [name for name in ("min", "max") if name in gate.bounds]
    if len(given) != 1 or verdict.kind not in set(Kind):
        return ""
    guard = METRICS[gate.metric].guard(Kind(verdict.kind))
    if guard is None or guard in given:
        return ""
    prompts = PROMPTS.get(verdict.kind, "prompts")
    return (
        f"reversed? {gate.metric} on {prompts} usually has a {guard}, not a {given[0]}"
    )
