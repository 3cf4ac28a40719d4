"""The properties of a gate's JUnit entry."""

from __future__ import annotations

from collections.abc import Mapping

from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.reports import words


def properties(verdict: Verdict, provenance: Mapping[str, str]) -> list[tuple[str, str]]:
    """Name and value pairs: the gate's figures, then facts of the run.

    Args:
        provenance: the facts; one about a single benchmark is named ``fact/benchmark``.
    """
    gate, estimate, need, noise = verdict.gate, verdict.estimate, verdict.need, verdict.noise
    figures: dict[str, object] = {
        "benchmark": gate.benchmark,
        "metric": gate.metric,
        "group": gate.group,
        "value": estimate.value,
        "interval_lower": estimate.lower,
        "interval_upper": estimate.upper,
        "n": estimate.n,
        "minimum": gate.minimum,
        "maximum": gate.maximum,
        "invalid_rate": verdict.invalid,
        "bound_lower": verdict.bounds[0],
        "bound_upper": verdict.bounds[1],
        "outcome": verdict.outcome.value,
        "result": words.mark(verdict).rstrip("?").lower(),
        "decision": gate.decision,
        "confidence": verdict.level,
        "prompts_needed": need and need.prompts,
        "samples_needed": need and need.samples,
        "invalid_answers_decide": "yes" if verdict.flips else None,
        "not_checked": verdict.skipped or None,
        "rationale": gate.provenance or None,
        "use": verdict.use,
        "waiver": _waiver(verdict),
        "waived_until": gate.waiver and gate.waiver.until,
        "waived_by": gate.waiver and gate.waiver.by,
        "waived_reason": gate.waiver and gate.waiver.reason,
        "judge_repeats": noise and noise.repeats,
        "judge_flips": noise and noise.flipped,
        "judge_noise_of_interval": noise and noise.of_interval,
    } | _change(verdict)
    for view in verdict.views:
        figures[f"{view.use}_value"] = view.estimate.value
        figures[f"{view.use}_interval"] = f"{view.estimate.lower:.6g} {view.estimate.upper:.6g}"
        figures[f"{view.use}_note"] = view.note or None
    for fact, value in provenance.items():
        name, _, benchmark = fact.partition("/")
        if benchmark in ("", gate.benchmark):
            figures[name] = value
    return [(name, _shown(value)) for name, value in figures.items() if value is not None]


def of_error(gate: Gate) -> list[tuple[str, str]]:
    """Name and value pairs of a gate that has no figure."""
    facts = {
        "benchmark": gate.benchmark,
        "metric": gate.metric,
        "group": gate.group,
        "minimum": gate.minimum,
        "maximum": gate.maximum,
        "outcome": "error",
        "decision": gate.decision,
        "rationale": gate.provenance or None,
    }
    return [(name, _shown(value)) for name, value in facts.items() if value is not None]


def _waiver(verdict: Verdict) -> str | None:
    """Whether the gate's waiver holds, or why it does nothing; None without one."""
    if verdict.gate.waiver is None or verdict.is_idle:
        return None
    return "holds" if verdict.waived else "not needed" if verdict.passed else "expired"


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _change(verdict: Verdict) -> dict[str, object]:
    """The change since the baseline; empty without one."""
    compared, gate = verdict.comparison, verdict.gate
    if compared is None:
        return {}
    return {
        "baseline": f"{compared.candidate} {compared.started}",
        "change": compared.change.value,
        "change_lower": compared.change.lower,
        "change_upper": compared.change.upper,
        "change_bound_lower": compared.lower,
        "change_bound_upper": compared.upper,
        "max_drop": gate.max_drop,
        "max_rise": gate.max_rise,
        "flips_lost": compared.lost,
        "flips_gained": compared.gained,
        "p_flips": compared.p_flips,
    }
