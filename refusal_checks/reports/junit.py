"""The properties of a gate's JUnit entry."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from refusal_checks.core.text import clean
from refusal_checks.gates.decide import Verdict
from refusal_checks.gates.explain import sentence
from refusal_checks.gates.gate import Gate
from refusal_checks.reports import explain

FILE, LINE = "threshold_file", "threshold_line"
"""Names of the properties with the place of a gate's bounds."""

TAG = "dd_tags[refusal_checks.{}]"
"""A property's second name, by which Datadog makes it a tag of the test."""


def properties(verdict: Verdict, provenance: Mapping[str, str]) -> list[tuple[str, str]]:
    """Name and value pairs: the gate's figures, then facts of the run.

    Args:
        provenance: the facts; one about a single benchmark is named ``fact/benchmark``.
    """
    gate, estimate, need, noise = verdict.gate, verdict.estimate, verdict.need, verdict.noise
    waiver = None  # whether it holds, or why it does nothing
    if gate.waiver and not verdict.is_idle:
        waiver = "holds" if verdict.waived else "not needed" if verdict.passed else "expired"
    figures: dict[str, object] = {
        "summary": sentence(verdict),
        "benchmark": gate.benchmark,
        "metric": gate.metric,
        "group": gate.group,
        "value": estimate.value,
        "interval_lower": estimate.lower,
        "interval_upper": estimate.upper,
        "n": estimate.n,
        **_bounds(gate),
        "invalid_rate": verdict.invalid,
        "bound_lower": verdict.bounds[0],
        "bound_upper": verdict.bounds[1],
        "outcome": verdict.outcome.value,
        "result": explain.mark(verdict).rstrip("?").lower(),
        "confidence": verdict.level,
        "prompts_needed": need and need.prompts,
        "samples_needed": need and need.samples,
        "invalid_answers_decide": "yes" if verdict.flips else None,
        "not_checked": verdict.skipped or None,
        "use": verdict.use,
        "waiver": waiver,
        "waived_until": gate.waiver and gate.waiver.until,
        "waived_by": gate.waiver and gate.waiver.by,
        "waived_reason": gate.waiver and gate.waiver.reason,
        "judge_repeats": noise and noise.repeats,
        "judge_flips": noise and noise.flipped,
        "judge_noise_of_interval": noise and noise.of_interval,
    }
    if compared := verdict.comparison:
        figures |= {
            "baseline": f"{compared.candidate} {compared.started}",
            "change": compared.change.value,
            "change_lower": compared.change.lower,
            "change_upper": compared.change.upper,
            "change_bound_lower": compared.lower,
            "change_bound_upper": compared.upper,
            "flips_lost": compared.lost,
            "flips_gained": compared.gained,
            "p_flips": compared.p_flips,
        }
    for view in verdict.views:
        figures[f"{view.use}_value"] = view.estimate.value
        figures[f"{view.use}_interval"] = f"{view.estimate.lower:.6g} {view.estimate.upper:.6g}"
        figures[f"{view.use}_note"] = view.note or None
    return _pairs(figures | _facts(gate, provenance))


def of_error(gate: Gate, error: str, provenance: Mapping[str, str]) -> list[tuple[str, str]]:
    """Name and value pairs of a gate that has no figure.

    Args:
        error: why there is none.
        provenance: as for ``properties``; empty if the run ended before it was known.
    """
    facts: dict[str, object] = {
        "summary": f"Could not be evaluated: {clean(error, 500)}",
        "benchmark": gate.benchmark,
        "metric": gate.metric,
        "group": gate.group,
        **_bounds(gate),
        "outcome": "error",
        "result": "error",
    }
    return _pairs(facts | _facts(gate, provenance))


def _bounds(gate: Gate) -> dict[str, object]:
    """What is asked, why, and where that is written."""
    line, here, file = gate.line, Path.cwd(), Path(gate.source)
    if file.is_relative_to(here):  # so that CI finds it in the repository
        file = file.relative_to(here)
    return {
        "minimum": gate.minimum,
        "maximum": gate.maximum,
        **dict(zip(gate.margin_names, (gate.max_drop, gate.max_rise), strict=True)),
        "decision": gate.decision,
        "rationale": gate.provenance or None,
        FILE: file.as_posix() if line else None,
        LINE: line,
    }


def _facts(gate: Gate, provenance: Mapping[str, str]) -> dict[str, object]:
    """The facts of the run, and of the gate's benchmark."""
    named = ((*fact.partition("/"), value) for fact, value in provenance.items())
    return {name: value for name, _, benchmark, value in named if benchmark in ("", gate.benchmark)}


def _pairs(facts: Mapping[str, object]) -> list[tuple[str, str]]:
    """The facts that are known: all under their own names, then all as tags."""
    pairs = [
        (name, f"{value:.6g}" if isinstance(value, float) else clean(str(value), 2000))
        for name, value in facts.items()
        if value is not None
    ]
    return pairs + [(TAG.format(name), value) for name, value in pairs]
