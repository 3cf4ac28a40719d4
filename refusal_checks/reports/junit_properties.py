"""The properties that a gate's JUnit entry carries."""

from __future__ import annotations

from collections.abc import Mapping

from refusal_checks.gates.verdict import Verdict
from refusal_checks.reports import words


def properties(verdict: Verdict, provenance: Mapping[str, str]) -> list[tuple[str, str]]:
    """Name and value pairs: the figures of the gate, then where they come from.

    Args:
        provenance: facts of the run; one that is a benchmark's own is named ``fact/benchmark``.
    """
    gate, estimate = verdict.gate, verdict.estimate
    figures = {
        "benchmark": gate.benchmark,
        "metric": gate.metric,
        "group": gate.group,
        "value": f"{estimate.value:.6g}",
        "interval_lower": f"{estimate.lower:.6g}",
        "interval_upper": f"{estimate.upper:.6g}",
        "n": estimate.n,
        "minimum": gate.minimum,
        "maximum": gate.maximum,
        "invalid_rate": f"{verdict.invalid:.6g}",
        "bound_lower": f"{verdict.bounds[0]:.6g}",
        "bound_upper": f"{verdict.bounds[1]:.6g}",
        "outcome": verdict.outcome.value,
        "result": words.mark(verdict).rstrip("?").lower(),
        "decision": gate.decision,
        "confidence": f"{verdict.level:.6g}",
        "prompts_needed": verdict.need and verdict.need.prompts,
        "samples_needed": verdict.need and verdict.need.samples,
        "invalid_answers_decide": "yes" if verdict.flips else None,
        "not_checked": verdict.skipped or None,
        "rationale": gate.provenance or None,
        "use": verdict.use,
        "judge_repeats": verdict.noise and verdict.noise.repeats,
        "judge_flips": verdict.noise and verdict.noise.flipped,
        "judge_noise_of_interval": verdict.noise and f"{verdict.noise.of_interval:.6g}",
    } | _change(verdict)
    for view in verdict.views:
        estimate = view.estimate
        figures[f"{view.use}_value"] = f"{estimate.value:.6g}"
        figures[f"{view.use}_interval"] = f"{estimate.lower:.6g} {estimate.upper:.6g}"
        figures[f"{view.use}_note"] = view.note or None
    split = ((name.partition("/"), value) for name, value in provenance.items())
    known = {name: value for (name, _, of), value in split if of in ("", gate.benchmark)}
    return [(name, str(value)) for name, value in (figures | known).items() if value is not None]


def _change(verdict: Verdict) -> dict[str, object]:
    """What changed since the baseline; empty without one."""
    compared, gate = verdict.comparison, verdict.gate
    if compared is None:
        return {}
    return {
        "baseline": f"{compared.candidate} {compared.started}",
        "change": f"{compared.change.value:.6g}",
        "change_lower": f"{compared.change.lower:.6g}",
        "change_upper": f"{compared.change.upper:.6g}",
        "change_bound_lower": f"{compared.lower:.6g}",
        "change_bound_upper": f"{compared.upper:.6g}",
        "max_drop": gate.max_drop,
        "max_rise": gate.max_rise,
        "flips_lost": compared.lost,
        "flips_gained": compared.gained,
        "p_flips": None if compared.p_flips is None else f"{compared.p_flips:.6g}",
    }
