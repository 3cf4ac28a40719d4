"""JUnit: properties of suite and tests, and a file for runs that pytest did not start.

pytest writes its own file and gets the same properties by its own means; see ``plugin/``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from refusal_checks.core.text import clean
from refusal_checks.gates.gate import Gate, measured_id
from refusal_checks.gates.verdict import Verdict
from refusal_checks.io.files import write_text
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.reports.rows import measured
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary
from refusal_checks.trust.floors import Figure, JudgeCheck
from refusal_checks.wording import failures
from refusal_checks.wording.gate_sentences import group_of, line, mark, sentence
from refusal_checks.wording.release import release_decision

if TYPE_CHECKING:
    from junit_xml import TestCase

CLASS = "refusal_checks"
"""Start of the class names of gates; a benchmark's name follows."""

Properties = dict[str, str]

_OURS = {"benchmark", "metric", "result"}
"""Names of properties that only our tests have all of."""


def class_of(properties: Mapping[str, str]) -> str:
    """The class name of a test with these properties; empty if it is not one of ours."""
    if "canary_sha256" in properties:
        return f"{CLASS}.judge"
    return f"{CLASS}.{properties['benchmark']}" if properties.keys() >= _OURS else ""


def write(run: RunFolder, path: Path) -> None:
    """Write a case for each gate and each check of the judge."""
    from junit_xml import TestSuite, to_xml_report_string

    summary = run.summary()
    name = clean(summary.manifest.shown or run.path.name, 200)
    suite = TestSuite(name, list(_cases(summary)), properties=of_run(summary))
    write_text(path, to_xml_report_string([suite], prettyprint=False))


def _cases(run: RunSummary) -> Iterator[TestCase]:
    from junit_xml import TestCase

    for check in run.judge.checks if run.judge else ():
        case = TestCase(f"test_judge[{check.name}]", f"{CLASS}.judge")
        if not check.passed:
            text = "\n".join(failures.judge_message(check))
            case.add_failure_info(clean(check.headline, 500), text)
        yield case
    for gate, verdict in run.verdicts.items():
        case = TestCase(f"test_gate[{gate}]", f"{CLASS}.{verdict.gate.benchmark}")
        case.stdout = _as_text(of_gate(verdict, run))
        if verdict.is_idle:
            case.add_skipped_info(clean(verdict.skipped, 500))
        elif not verdict.passed:
            case.add_failure_info(clean(line(verdict), 500), failures.message(verdict))
        yield case
    for verdict in measured(run):
        name = verdict.gate.benchmark
        case = TestCase(f"test_gate[{measured_id(name)}]", f"{CLASS}.{name}")
        case.stdout = _as_text(of_gate(verdict, run))
        yield case
    faults = {f"test_gate[{gate}]": why for gate, why in run.errors.items()}
    if run.failure:
        faults["stopped"] = run.failure
    for name, why in faults.items():
        case = TestCase(name, f"{CLASS}.error")
        case.add_error_info(clean(why.partition("\n")[0], 500))
        yield case


def _as_text(properties: Properties) -> str:
    """Show a case's properties as its output: the library has properties for suites only."""
    return "\n".join(f"{name} = {value}" for name, value in properties.items())


def of_run(run: RunSummary) -> Properties:
    """Properties of the suite: may it ship, and what ran."""
    manifest, decision = run.manifest, release_decision(run)
    facts: dict[str, object] = {
        "may_ship": decision.line,
        "candidate": manifest.candidate,
        "judge": manifest.judge,
        "left_out": "; ".join(manifest.left_out),
    }
    by_kind: dict[str, list[str]] = {}
    for found in decision.reservations:
        kind = "accepted" if found.accepted else found.kind
        by_kind.setdefault(f"reservations_{kind}", []).append(found.id)
    return _worded(facts | {kind: ", ".join(ids) for kind, ids in by_kind.items()})


def of_judge(checked: JudgeCheck, figure: Figure) -> Properties:
    """Properties of a check; of several judging methods, those of the worst.

    Empty if no judge has the figure.
    """
    checks = [check for check in checked.checks if check.figure == figure]
    if not checks:
        return {}
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
    return _worded(facts)


def of_gate(verdict: Verdict, run: RunSummary) -> Properties:
    """Properties of a gate: what it asks, its figures, and what its benchmark was."""
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
        facts["worst_group"] = group_of(verdict)
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
    return _worded(facts | _benchmark(verdict.gate.benchmark, run))


def of_measured(benchmark: str, run: RunSummary) -> Properties:
    """Properties of a benchmark without a bound: its main figure, if it has one."""
    for verdict in measured(run):
        if verdict.gate.benchmark == benchmark:
            return of_gate(verdict, run)
    return {}


def of_error(gate: Gate, error: str, run: RunSummary) -> Properties:
    """Properties of a gate without a figure; what its benchmark was may not be known yet."""
    facts = {
        "summary": f"Could not be evaluated: {clean(error, 500)}",
        **_gate(gate),
        "outcome": "error",
        "result": "error",
    }
    return _worded(facts | _benchmark(gate.benchmark, run))


def _gate(gate: Gate) -> dict[str, object]:
    """What a gate asks, why, and where its bounds are written."""
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
    """The prompts of a benchmark, how they were judged, and how answers refused."""
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


def _worded(facts: Mapping[str, object]) -> Properties:
    """The facts that apply, as text."""
    return {
        name: f"{value:.6g}" if isinstance(value, float) else clean(str(value), 2000)
        for name, value in facts.items()
        if value not in (None, "")
    }
