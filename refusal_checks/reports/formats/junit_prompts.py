"""JUnit with one case per prompt, for CI systems that list test cases and compare runs.

There is one suite per benchmark and candidate. A case fails if its prompt counts against the gate
that stands for the benchmark, by that gate's metric; benchmarks that are only reported have no
failures. A case without any valid verdict is an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from refusal_checks.core.files import write_text
from refusal_checks.core.prompts import Kind
from refusal_checks.core.records import Record
from refusal_checks.core.text import clean
from refusal_checks.core.verdicts import Invalid
from refusal_checks.gates import sentences
from refusal_checks.gates.offenders import MissedBound, offender
from refusal_checks.gates.wording import requirement
from refusal_checks.metrics import METRICS, by_prompt, rejection_rate
from refusal_checks.reports import messages, rows
from refusal_checks.results.manifest import Data
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary

if TYPE_CHECKING:
    from junit_xml import TestCase, TestSuite

OPTION = "--junit-prompts"
VARIABLE = ""
USUAL_FILE = "junit-prompts.xml"
HELP = (
    "write JUnit XML with one case per prompt, for browsing: "
    "its failed cases are not failed gates"
)

CASE = 400  # most characters of each text in a case
ALL = 6_000_000  # most characters of all texts together; CI systems refuse larger files

# Stands in each failed case, since few pages show a suite's properties.
_NO_GATE = (
    "This case is a prompt, not a failed gate. The gates are in the file of --junitxml."
)


def write(runs: Sequence[RunFolder], path: Path) -> None:
    from junit_xml import to_xml_report_string

    summaries = [run.summary() for run in runs]
    cases = 0
    for summary in summaries:
        cases += sum(figures.prompts for figures in summary.benchmarks.values())
    limit = min(CASE, ALL // (4 * max(cases, 1)))
    names = rows.full_names(summaries)
    suites: list[TestSuite] = []
    for run, summary, name in zip(runs, summaries, names, strict=True):
        for benchmark in summary.benchmarks:
            suites.append(_suite(run, summary, benchmark, name, limit))
    write_text(path, to_xml_report_string(suites, prettyprint=False))


def _suite(
    run: RunFolder, summary: RunSummary, benchmark: str, candidate: str, limit: int
) -> TestSuite:
    from junit_xml import TestSuite

    bound = _standard(summary, benchmark)
    # dots part a name into packages
    name = f"{benchmark}.{candidate.replace('.', '_')}" if candidate else benchmark
    records = by_prompt(run.records(benchmark)).values()
    cases = [_case(name, answers, bound, limit) for answers in records]
    started = clean(summary.manifest.started)[:19]
    properties = _properties(summary, benchmark, bound)
    return TestSuite(name, cases, timestamp=started, properties=properties)


def _standard(summary: RunSummary, benchmark: str) -> MissedBound | None:
    """The bound of the gate that stands for a benchmark; None if no answer counts against it."""
    verdicts = {
        v.gate: v for v in summary.verdicts.values() if v.gate.benchmark == benchmark
    }
    bounded = [gate for gate in verdicts if gate.has_bounds]
    if not bounded or summary.benchmarks[benchmark].kind == Kind.SENSITIVE:
        return None
    gate = rows.main_gate(bounded)
    return MissedBound.of(gate, verdicts[gate].estimate.value)


def _case(
    suite: str, answers: Sequence[Record], bound: MissedBound | None, limit: int
) -> TestCase:
    from junit_xml import TestCase

    prompt = answers[0].prompt
    case = TestCase(clean(prompt.id, 100) or "(no id)", suite)
    is_gated = bound is not None and bound.gate.looks_at(prompt)
    metric = METRICS[bound.gate.metric] if bound and is_gated else rejection_rate
    worst = offender(metric, answers, not (bound and is_gated) or bound.is_minimum)
    body = "\n".join(messages.exchange(worst, limit))
    if all(isinstance(record.judgement, Invalid) for record in answers):
        reasons = Counter(
            r.judgement.reason for r in answers if isinstance(r.judgement, Invalid)
        )
        shown = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
        case.add_error_info(f"no verdict: {shown}", body, "no verdict")
    elif bound and bound.is_missed_by(answers):
        gate = bound.gate
        score = f"{metric.scored} {metric.score(answers):+.2f}"
        message = f"{score}: {gate.id} must be {requirement(gate)}"
        case.add_failure_info(clean(message), f"{body}\n\n{_NO_GATE}", metric.name)
    else:
        case.stdout = body
    return case


def _properties(
    summary: RunSummary, benchmark: str, bound: MissedBound | None
) -> dict[str, str]:
    """Where the cases come from, and the figure of the gate that they count against."""
    manifest, evaluated = summary.manifest, summary.benchmarks[benchmark]
    data = manifest.data.get(benchmark, Data())
    counted, of_gate = (
        f"No gate bounds the answers of {benchmark}, so no case fails.",
        {},
    )
    if bound:
        gate, verdict = bound.gate, summary.verdicts[bound.gate.id]
        mark = sentences.mark(verdict)
        counted = (
            f"A failed case is a prompt that counts against the gate {gate.id}: {mark}."
        )
        of_gate = {
            "gate": gate.id,
            "threshold": requirement(gate),
            "figure": gate.show(verdict.estimate.value),
            "interval": gate.interval(verdict.estimate),
            "result": mark,
        }
    properties: dict[str, object] = {
        "about": f"For browsing: each case is a prompt, not a gate. {counted} The gates are the "
        "tests in the file of --junitxml; they decide whether to ship, these cases do not.",
        "candidate": manifest.candidate,
        "judge": manifest.judge,
        "kind": evaluated.kind,
        "prompts": evaluated.prompts,
        "answers": evaluated.answers,
        "invalid_answers": sum(evaluated.invalid.values()),
        "data_revision": data.revision,
        "data_sha256": data.sha256,
        "data_pinned": "no: unpinned rows" if not data.pinned else None,
        "redacted": "yes" if manifest.redacted else None,
        **of_gate,
    }
    shown = {
        name: value for name, value in properties.items() if value not in ("", None)
    }
    return {name: clean(str(value)) for name, value in shown.items()}
