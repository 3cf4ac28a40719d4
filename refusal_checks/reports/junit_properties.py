"""Properties of tests and their suite in JUnit files: what was asked, found and decided.

pytest adds them to its own entries (``plugin/``), ``junit.py`` to the file of a run without pytest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from refusal_checks.core.text import sanitize
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.reports.rows import ungated_figures
from refusal_checks.results.summary import RunSummary
from refusal_checks.trust.minimums import Figure, JudgeCheck
from refusal_checks.wording.gate_sentences import mark, sentence, worst_group
from refusal_checks.wording.release import release_decision

CLASS = "refusal_checks"
"""The start of a gate's class name; the benchmark's name follows."""

Properties = dict[str, str]

_OURS = {"benchmark", "metric", "result"}
"""Properties that together mark our tests."""


def class_name(properties: Mapping[str, str]) -> str:
    """The class name of a test with these properties; empty if it is not one of ours."""
    if "canary_sha256" in properties:
        return f"{CLASS}.judge"
    return f"{CLASS}.{properties['benchmark']}" if properties.keys() >= _OURS else ""


def run_properties(run: RunSummary) -> Properties:
    """Properties of the suite: may it ship, and what ran."""
    manifest, decision = run.manifest, release_decision(run)
    facts: dict[str, object] = {
        "may_ship": decision.line,
        "candidate": manifest.candidate,
        "judge": manifest.judge,
        "left_out": "; ".join(run.left_out),
    }
    by_kind: dict[str, list[str]] = {}
    for found in decision.reservations:
        kind = "accepted" if found.accepted else found.kind
        by_kind.setdefault(f"reservations_{kind}", []).append(found.id)
    return _format_facts(
        facts | {kind: ", ".join(ids) for kind, ids in by_kind.items()}
    )


def judge_properties(checked: JudgeCheck, figure: Figure) -> Properties:
    """Properties of a check; with several ways of judging, those of the worst.

    Empty if no judge has the figure.
    """
    checks = [check for check in checked.checks if check.figure == figure]
    if not checks:
        return {}
    # One test speaks for all methods, and fails if one of them does.
    worst = next((check for check in checks if not check.passed), checks[0])
    facts: dict[str, object] = {
        "judge": checked.judge,
        "canary_sha256": checked.digest,
        "bound": worst.bound,
        "verdicts_asked": checked.asked,
        "seconds": round(checked.seconds, 3),
    }
    if worst.estimate:
        facts |= _estimate(worst.estimate)
    return _format_facts(facts)


def gate_properties(verdict: Verdict, run: RunSummary) -> Properties:
    """Properties of a gate: its requirements, its figures and its benchmark."""
    result = mark(verdict).rstrip("?").lower() if verdict.gate.bounds else "measured"
    facts: dict[str, object] = {
        "summary": sentence(verdict),
        **_gate(verdict.gate),
        **_estimate(verdict.estimate),
        "invalid_rate": verdict.invalid.share,
        "bound_lower": verdict.bounds[0],
        "bound_upper": verdict.bounds[1],
        "outcome": verdict.outcome.value,
        "result": result,
        "confidence": verdict.level,
        "prompts_needed": verdict.prompts_needed,
    }
    waiver, compared = verdict.gate.waiver, verdict.comparison
    if waiver:
        facts |= {
            "waived_until": waiver.until,
            "waived_by": waiver.by,
            "waived_reason": waiver.reason,
        }
    if verdict.groups:
        failed = [group.gate.group for group in verdict.groups if not group.passed]
        facts["worst_group"] = worst_group(verdict)
        facts["failed_groups"] = ", ".join(map(str, failed))
    if compared:
        facts |= {
            "baseline": f"{compared.candidate} {compared.started}",
            "change": compared.change.value,
            "change_lower": compared.change.lower,
            "change_upper": compared.change.upper,
            "flips_lost": compared.lost,
            "flips_gained": compared.gained,
        }
    return _format_facts(facts | _benchmark(verdict.gate.benchmark, run))


def measured_properties(benchmark: str, run: RunSummary) -> Properties:
    """Properties of a benchmark without bounds: its main figure, if it has one."""
    for verdict in ungated_figures(run):
        if verdict.gate.benchmark == benchmark:
            return gate_properties(verdict, run)
    return {}


def error_properties(gate: Gate, error: str, run: RunSummary) -> Properties:
    """Properties of a gate without a figure, whose benchmark may not be known yet."""
    facts = {
        "summary": f"Could not be evaluated: {sanitize(error, 500)}",
        **_gate(gate),
        "outcome": "error",
        "result": "error",
    }
    return _format_facts(facts | _benchmark(gate.benchmark, run))


def _gate(gate: Gate) -> dict[str, object]:
    """What a gate requires, why, and where its bounds are defined."""
    file = Path(gate.source)
    if file.is_relative_to(Path.cwd()):  # so that CI finds it in the repository
        file = file.relative_to(Path.cwd())
    return {
        "benchmark": gate.benchmark,
        "metric": gate.metric,
        "group": gate.group,
        **gate.bounds,
        "decision": gate.decision,
        "rationale": gate.provenance,
        "threshold_file": file.as_posix() if gate.source else None,
    }


def _estimate(estimate: Estimate) -> dict[str, object]:
    return {
        "value": estimate.value,
        "interval_lower": estimate.lower,
        "interval_upper": estimate.upper,
        "n": estimate.n,
    }


def _benchmark(name: str, run: RunSummary) -> dict[str, object]:
    """A benchmark's prompts, how they were judged, and how the answers refused."""
    facts: dict[str, object] = {}
    data, figures = run.manifest.data.get(name), run.benchmarks.get(name)
    if data:
        unpinned = "" if data.pinned else " (unpinned rows)"
        facts["data_revision"] = f"{data.revision or ''}{unpinned}"
        facts["prompts"] = data.prompts
        digests = run.manifest.judge_prompts[name].values()
        facts["judge_prompt_sha256"] = ", ".join(digests)
    if figures:
        facts["partial_refusals"] = figures.partial or None
        for category, answers in figures.refusal_categories.items():
            field = re.sub(r"\W", "_", category)[:60]
            facts[f"refusal_category_{field}"] = answers
    return facts


def _format_facts(facts: Mapping[str, object]) -> Properties:
    """The facts that apply, as text."""
    return {
        # Six digits: more are noise, and dashboards compare texts.
        name: f"{value:.6g}" if isinstance(value, float) else sanitize(str(value), 2000)
        for name, value in facts.items()
        if value not in (None, "")
    }
