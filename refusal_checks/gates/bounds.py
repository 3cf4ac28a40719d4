"""A gate's bounds and margins in words."""

from __future__ import annotations

from collections.abc import Mapping

from refusal_checks.core.prompts import Kind
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS, Metric

PROMPTS = {
    Kind.SAFETY.value: "harmful prompts",
    Kind.SANITY.value: "harmless prompts",
    Kind.SENSITIVE.value: "sensitive prompts",
}
"""What a benchmark's prompts are called, by its kind."""


def exact(metric: Metric, value: float) -> str:
    """Format a bound as in its file, without trailing zeros: ``80%``, ``12.5%``, ``3.5``."""
    if metric.is_rate:
        return f"{_without_zeros(100 * value)}%"
    return _without_zeros(value)


def _without_zeros(value: float) -> str:
    return f"{value:z.6f}".rstrip("0").rstrip(".")


def _bound(gate: Gate, value: float) -> str:
    """Format a bound as figures are, ``80.0%``, but never round it: ``0.05%``."""
    shown = gate.show(value)
    written = exact(METRICS[gate.metric], value)
    return written if _decimals(written) > _decimals(shown) else shown


def _decimals(figure: str) -> int:
    return len(figure.rstrip("%").partition(".")[2])


def bounds_in_words(
    gate: Gate,
    minimum: str = "at least {}",
    maximum: str = "at most {}",
    between: str = " and ",
) -> str:
    """Word the bounds on the figure with this template, for example ``at least 80.0%``.

    Empty for a gate that only bounds the change.
    """
    ends = []
    if gate.minimum is not None:
        ends.append(minimum.format(_bound(gate, gate.minimum)))
    if gate.maximum is not None:
        ends.append(maximum.format(_bound(gate, gate.maximum)))
    return between.join(ends)


def margins_in_words(gate: Gate) -> str:
    """Word the margins of the change, for example ``at most 5.0% lower than the baseline``."""
    if not gate.has_margins:
        return ""
    ends = []
    if gate.max_drop is not None:
        ends.append(f"at most {_bound(gate, gate.max_drop)} lower")
    if gate.max_rise is not None:
        ends.append(f"at most {_bound(gate, gate.max_rise)} higher")
    return f"{' and '.join(ends)} than the baseline"


def requirement(gate: Gate) -> str:
    """Word what a gate requires: its bounds or, if it has none, its margins."""
    return bounds_in_words(gate) or margins_in_words(gate)


def looser_bounds(gate: Gate, earlier: Mapping[str, float]) -> list[str]:
    """Word those of a gate's bounds that allow more than in an earlier run.

    ``earlier`` has that run's bounds in the form of ``Gate.bounds``.
    """
    changes = []
    for name, old in earlier.items():
        new = gate.bounds.get(name)
        if new is None:
            changes.append(f"no {name}, which was {_bound(gate, old)}")
            continue
        is_looser = new < old if name == "min" else new > old
        if is_looser:
            changes.append(f"{name} {_bound(gate, new)}, which was {_bound(gate, old)}")
    return changes


def reversed_bound(verdict: Verdict) -> str:
    """Ask back if the only bound excludes good values, as ``min`` does on harmless prompts."""
    gate = verdict.gate
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
