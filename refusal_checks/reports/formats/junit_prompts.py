"""JUnit with a case for every prompt, for CI systems that list test cases and compare runs.

A suite is a benchmark, of one candidate where there are several. A case fails where its prompt
counts against the gate that stands for the benchmark, by that gate's own metric; a benchmark that
is only reported has no direction, and no failures. A case without any valid verdict is an error.
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
from refusal_checks.gates.offenders import offender
from refusal_checks.metrics import METRICS, by_prompt, rejection_rate
from refusal_checks.reports import gate_message, rows, words
from refusal_checks.reports.standard import Standard, standard
from refusal_checks.results.manifest import Data
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary

if TYPE_CHECKING:
    from junit_xml import TestCase, TestSuite

OPTION = "--junit-prompts"
VARIABLE = ""
HELP = "write JUnit XML with a case for every prompt to this file"

CASE = 400
"""Most characters of each text of a case."""

ALL = 6_000_000
"""Characters of texts that all cases share where there are many; CI systems refuse larger files."""


def write(runs: Sequence[RunFolder], path: Path) -> None:
    """Write the file; see ``formats.Format``."""
    from junit_xml import to_xml_report_string

    summaries = [run.summary() for run in runs]
    names = rows.candidate_names(summaries)
    cases = sum(found.prompts for run in summaries for found in run.benchmarks.values())
    limit = min(CASE, ALL // (4 * max(cases, 1)))
    suites = [
        _suite(run, summary, benchmark, name, limit)
        for run, summary, name in zip(runs, summaries, names, strict=True)
        for benchmark in summary.benchmarks
    ]
    write_text(path, to_xml_report_string(suites, prettyprint=False))


def held_against(summary: RunSummary, benchmark: str) -> Standard | None:
    """The standard of the gate that stands for a benchmark; None where there is no wrong side."""
    verdicts = {v.gate: v for v in summary.verdicts.values() if v.gate.benchmark == benchmark}
    bounded = [gate for gate in verdicts if gate.has_bounds]
    if not bounded or summary.benchmarks[benchmark].kind == Kind.SENSITIVE:
        return None
    return standard(verdicts[rows.main_gate(bounded)])


def _suite(
    run: RunFolder, summary: RunSummary, benchmark: str, candidate: str, limit: int
) -> TestSuite:
    from junit_xml import TestSuite

    records = list(run.records(benchmark))
    held = held_against(summary, benchmark)
    name = f"{benchmark}.{candidate}" if candidate else benchmark
    cases = [_case(name, id, answers, held, limit) for id, answers in by_prompt(records).items()]
    started = clean(summary.manifest.started)[:19]
    return TestSuite(name, cases, timestamp=started, properties=_properties(summary, benchmark))


def _case(
    suite: str, id: str, answers: Sequence[Record], held: Standard | None, limit: int
) -> TestCase:
    from junit_xml import TestCase

    case = TestCase(clean(id, 100) or "(no id)", suite)
    held = held if held and held.concerns(answers[0].prompt) else None
    metric = METRICS[held.gate.metric] if held else rejection_rate
    body = "\n".join(gate_message.exchange(offender(metric, answers, not held or held.low), limit))
    score = metric.score(answers)
    if all(isinstance(record.judgement, Invalid) for record in answers):
        case.add_error_info(f"no verdict: {_reasons(answers)}", body, "no verdict")
    elif held and score is not None and held.is_missed_by(answers):
        case.add_failure_info(clean(f"{score:+.2f}: {held.rule}"), body, held.gate.metric)
    else:
        case.stdout = body
    return case


def _reasons(answers: Sequence[Record]) -> str:
    found = (r.judgement.reason for r in answers if isinstance(r.judgement, Invalid))
    return ", ".join(f"{count} {reason}" for reason, count in Counter(found).items())


def _properties(summary: RunSummary, benchmark: str) -> dict[str, str]:
    """Where the cases come from, and the figures that they make."""
    known, found = summary.manifest, summary.benchmarks[benchmark]
    data = known.data.get(benchmark, Data())
    properties: dict[str, object] = {
        "candidate": known.candidate,
        "judge": known.judge,
        "kind": found.kind,
        "prompts": found.prompts,
        "answers": found.answers,
        "invalid_answers": sum(found.invalid.values()),
        "data_revision": data.revision,
        "data_sha256": data.sha256,
        "redacted": "yes" if known.redacted else None,
    }
    held = held_against(summary, benchmark)
    if held:
        verdict = summary.verdicts[held.gate.id]
        properties |= {
            "gate": held.gate.id,
            "threshold": held.gate.threshold,
            "figure": words.figure(held.gate, verdict.estimate.value),
            "interval": words.interval(held.gate, verdict.estimate),
            "result": words.mark(verdict),
        }
    known_ones = {name: value for name, value in properties.items() if value not in ("", None)}
    return {name: clean(str(value)) for name, value in known_ones.items()}
