"""Properties of a test in JUnit: the figures of its gate or check, and their provenance."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from refusal_checks.core.text import clean
from refusal_checks.gates.comparison import Comparison
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.lines import line_of
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges.trust.floors import Figure, JudgeCheck
from refusal_checks.metrics import main_metric
from refusal_checks.reports.wording.release import ReleaseDecision
from refusal_checks.reports.wording.verdicts import group_of, mark, sentence
from refusal_checks.results.benchmark_summary import BenchmarkSummary
from refusal_checks.results.summary import RunSummary

FILE, LINE = "threshold_file", "threshold_line"
"""Names of the properties with the place of a gate's bounds."""

TAG = "dd_tags[refusal_checks.{}]"
"""A second name of each property: Datadog makes it a tag of the test."""


def of_decision(decision: ReleaseDecision) -> dict[str, str]:
    """The answer to "may it ship?", and the ids of its reservations, if any, by kind."""
    facts = {"may_ship": clean(decision.line, 2000)}
    named: dict[str, dict[str, None]] = {}
    for found in decision.reservations:
        if found.accepted:
            name = f"{found.id} {found.accepted}"
            named.setdefault("reservations_accepted", {})[name] = None
        else:
            named.setdefault(f"reservations_{found.kind}", {})[found.id] = None
    return facts | {name: clean("; ".join(ids), 2000) for name, ids in named.items()}


def of_judge(checked: JudgeCheck, figure: Figure) -> list[tuple[str, str]]:
    """Name and value pairs of a check; of several judging methods, those of the worst.

    Empty if no judge has the figure.
    """
    checks = [check for check in checked.checks if check.figure == figure]
    if not checks:
        return []
    worst = next((check for check in checks if not check.passed), checks[0])
    facts: dict[str, object] = {
        "judge": checked.judge,
        "canary_sha256": checked.digest,
        "bound": worst.bound,
        "verdicts_asked": checked.asked,
        "seconds": round(checked.seconds, 3),
    }
    estimate = worst.estimate
    if estimate:
        facts["value"] = estimate.value
        facts["lower"] = estimate.lower
        facts["upper"] = estimate.upper
        facts["n"] = estimate.n
    return [(name, clean(str(value))) for name, value in facts.items()]


def provenance(summary: RunSummary, benchmark: str = "") -> dict[str, str]:
    """Provenance of a run's figures by name, with facts special to a benchmark.

    A name with a slash, such as ``part/xstest_safe``, concerns one benchmark.
    """
    manifest = summary.manifest
    facts = {"candidate": manifest.candidate, "judge": manifest.judge}
    for name, data in manifest.data.items():
        revision = data.revision or ""
        if not data.pinned:
            revision += " (unpinned rows)"
        facts[f"data_revision/{name}"] = revision
        facts[f"prompts/{name}"] = str(data.prompts)
        if data.is_partial:
            facts[f"part/{name}"] = f"only {data.prompts} of {data.usual} prompts"
        digests = manifest.judge_prompts[name].values()
        facts[f"judge_prompt_sha256/{name}"] = ", ".join(digests)
    if manifest.stored:
        facts["stored_answers"] = manifest.stored
    if manifest.left_out:
        facts["left_out"] = "; ".join(manifest.left_out)
    figures = summary.benchmarks.get(benchmark)
    if figures and figures.partial:
        facts["partial_refusals"] = str(figures.partial)
    ways = figures.refusal_categories if figures else {}
    for category, answers in ways.items():
        field = re.sub(r"[^A-Za-z0-9]", "_", category)[:60]
        facts[f"refusal_category_{field}"] = str(answers)
    return facts


def of_gate(verdict: Verdict, provenance: Mapping[str, str]) -> list[tuple[str, str]]:
    """Name and value pairs: the gate's figures, then facts of the run; see ``provenance``."""
    figures = {
        **_groups(verdict),
        **_figure(verdict),
        **_bounds(verdict.gate),
        **_outcome(verdict),
        **_waiver(verdict),
    }
    if verdict.comparison:
        figures |= _change(verdict.comparison)
    for view in verdict.views:
        estimate = view.estimate
        figures[f"{view.use}_value"] = estimate.value
        figures[f"{view.use}_interval"] = f"{estimate.lower:.6g} {estimate.upper:.6g}"
        figures[f"{view.use}_note"] = view.note or None
    return _pairs(verdict.gate, sentence(verdict), figures, provenance)


def of_measured(benchmark: str, figures: BenchmarkSummary) -> list[tuple[str, str]]:
    """Name and value pairs of a benchmark without a gate: its main figure."""
    facts: dict[str, object] = {"benchmark": benchmark, "result": "measured"}
    metric = main_metric(figures.figures)
    if metric:
        estimate = figures.figures[metric.name]
        facts |= {"metric": metric.name, "value": estimate.value}
        facts |= {"interval_lower": estimate.lower, "interval_upper": estimate.upper}
        facts["n"] = estimate.n
    return list(_worded(facts))


def _groups(verdict: Verdict) -> dict[str, object]:
    if not verdict.groups:
        return {}
    failed = [group.gate.group or "" for group in verdict.groups if not group.passed]
    return {
        "worst_group": group_of(verdict),
        "failed_groups": ", ".join(failed) or None,
    }


def _figure(verdict: Verdict) -> dict[str, object]:
    estimate = verdict.estimate
    return {
        "value": estimate.value,
        "interval_lower": estimate.lower,
        "interval_upper": estimate.upper,
        "n": estimate.n,
    }


def _outcome(verdict: Verdict) -> dict[str, object]:
    need = verdict.need
    return {
        "invalid_rate": verdict.invalid.share,
        "bound_lower": verdict.bounds[0],
        "bound_upper": verdict.bounds[1],
        "outcome": verdict.outcome.value,
        "result": mark(verdict).rstrip("?").lower(),
        "confidence": verdict.level,
        "prompts_needed": need and need.prompts,
        "samples_needed": need and need.samples,
        "invalid_answers_decide": "yes" if verdict.invalid.decide else None,
        "not_checked": verdict.skipped or None,
        "use": verdict.use,
    }


def _waiver(verdict: Verdict) -> dict[str, object]:
    waiver = verdict.gate.waiver
    if not waiver:
        return {}
    facts: dict[str, object] = {
        "waived_until": waiver.until,
        "waived_by": waiver.by,
        "waived_reason": waiver.reason,
    }
    if not verdict.is_idle:
        if verdict.waived:
            state = "holds"
        elif verdict.passed:
            state = "not needed"
        else:
            state = "expired"
        facts = {"waiver": state, **facts}
    return facts


def _change(compared: Comparison) -> dict[str, object]:
    return {
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


def of_error(
    gate: Gate, error: str, provenance: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Name and value pairs of a gate without a figure; the run's facts may not be known yet."""
    facts = {**_bounds(gate), "outcome": "error", "result": "error"}
    return _pairs(
        gate, f"Could not be evaluated: {clean(error, 500)}", facts, provenance
    )


def _bounds(gate: Gate) -> dict[str, object]:
    """The gate's bounds, their reason, and where they are written."""
    line = line_of(gate)
    drop, rise = gate.margin_names
    file = Path(gate.source)
    if file.is_relative_to(Path.cwd()):  # so that CI finds it in the repository
        file = file.relative_to(Path.cwd())
    return {
        "minimum": gate.minimum,
        "maximum": gate.maximum,
        drop: gate.max_drop,
        rise: gate.max_rise,
        "decision": gate.decision,
        "rationale": gate.provenance or None,
        FILE: file.as_posix() if line else None,
        LINE: line,
    }


def _pairs(
    gate: Gate,
    summary: str,
    figures: Mapping[str, object],
    provenance: Mapping[str, str],
) -> list[tuple[str, str]]:
    """All known facts that apply: pairs by name, then tags.

    Leaves out facts on other benchmarks.
    """
    facts = {
        "summary": summary,
        "benchmark": gate.benchmark,
        "metric": gate.metric,
        "group": gate.group,
        **figures,
    }
    for fact, value in provenance.items():
        name, _, benchmark = fact.partition("/")
        if benchmark in ("", gate.benchmark):
            facts[name] = value
    pairs = list(_worded(facts))
    tags = [(TAG.format(name), value) for name, value in pairs]
    return pairs + tags


def _worded(facts: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in facts.items():
        if isinstance(value, float):
            yield name, f"{value:.6g}"
        elif value is not None:
            yield name, clean(str(value), 2000)
