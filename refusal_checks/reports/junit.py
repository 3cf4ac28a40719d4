"""The properties of a gate's JUnit entry."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from refusal_checks.core.text import clean
from refusal_checks.gates.decide import Verdict
from refusal_checks.gates.explain import sentence
from refusal_checks.gates.gate import Gate
from refusal_checks.judges.trust.canary import Figure, JudgeCheck
from refusal_checks.reports import explain

FILE, LINE = "threshold_file", "threshold_line"
"""Names of the properties with the place of a gate's bounds."""

TAG = "dd_tags[refusal_checks.{}]"
"""A property's second name, by which Datadog makes it a tag of the test."""


def of_judge(checked: JudgeCheck, figure: Figure) -> list[tuple[str, str]]:
    """Name and value pairs of one check of the judge."""
    check = next(made for made in checked.checks if made.figure == figure)
    known: dict[str, object] = {
        "judge": checked.judge,
        "canary_sha256": checked.digest,
        "bound": check.bound,
        "verdicts_asked": checked.asked,
        "seconds": round(checked.seconds, 3),
    }
    if found := check.estimate:
        known |= {"value": found.value, "lower": found.lower, "upper": found.upper, "n": found.n}
    return [(name, clean(str(value))) for name, value in known.items()]


def properties(verdict: Verdict, provenance: Mapping[str, str]) -> list[tuple[str, str]]:
    """Name and value pairs: the gate's figures, then facts of the run.

    Args:
        provenance: the facts; one about a single benchmark is named ``fact/benchmark``.
    """
    gate, estimate, need, noise = verdict.gate, verdict.estimate, verdict.need, verdict.noise
    waiver, holds = gate.waiver, None  # or why it does nothing
    if waiver and not verdict.is_idle:
        holds = "holds" if verdict.waived else "not needed" if verdict.passed else "expired"
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
        "waiver": holds,
        "waived_until": waiver and waiver.until,
        "waived_by": waiver and waiver.by,
        "waived_reason": waiver and waiver.reason,
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
    return _pairs(gate, figures, provenance)


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
    return _pairs(gate, facts, provenance)


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


def _pairs(
    gate: Gate, figures: Mapping[str, object], provenance: Mapping[str, str]
) -> list[tuple[str, str]]:
    """What is known, and the facts of the run and the benchmark: by name, then all as tags."""
    facts = dict(figures)
    for fact, value in provenance.items():
        name, _, benchmark = fact.partition("/")
        if benchmark in ("", gate.benchmark):
            facts[name] = value
    pairs = [
        (name, f"{value:.6g}" if isinstance(value, float) else clean(str(value), 2000))
        for name, value in facts.items()
        if value is not None
    ]
    return pairs + [(TAG.format(name), value) for name, value in pairs]
