"""A JUnit file for runs without pytest: a test case per gate, and one per check of the judge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from refusal_checks.core.text import sanitize
from refusal_checks.gates.gate import measured_id
from refusal_checks.io.files import write_text
from refusal_checks.reports.junit_properties import (
    CLASS,
    Properties,
    gate_properties,
    run_properties,
)
from refusal_checks.reports.rows import ungated_figures
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary
from refusal_checks.wording import failures
from refusal_checks.wording.gate_sentences import line

if TYPE_CHECKING:
    from junit_xml import TestCase


def write(run: RunFolder, path: Path) -> None:
    """Write a case for each gate and each check of the judge."""
    from junit_xml import TestSuite, to_xml_report_string

    summary = run.summary()
    name = sanitize(summary.manifest.shown or run.path.name, 200)
    suite = TestSuite(name, list(_cases(summary)), properties=run_properties(summary))
    write_text(path, to_xml_report_string([suite], prettyprint=False))


def _cases(run: RunSummary) -> Iterator[TestCase]:
    from junit_xml import TestCase

    for check in run.judge.checks if run.judge else ():
        case = TestCase(f"test_judge[{check.name}]", f"{CLASS}.judge")
        if not check.passed:
            text = "\n".join(failures.judge_message(check))
            case.add_failure_info(sanitize(check.headline, 500), text)
        yield case
    for gate, verdict in run.verdicts.items():
        case = TestCase(f"test_gate[{gate}]", f"{CLASS}.{verdict.gate.benchmark}")
        case.stdout = _as_text(gate_properties(verdict, run))
        if verdict.is_idle:
            case.add_skipped_info(sanitize(verdict.skipped, 500))
        elif not verdict.passed:
            case.add_failure_info(
                sanitize(line(verdict), 500), failures.message(verdict)
            )
        yield case
    for verdict in ungated_figures(run):
        name = verdict.gate.benchmark
        case = TestCase(f"test_gate[{measured_id(name)}]", f"{CLASS}.{name}")
        case.stdout = _as_text(gate_properties(verdict, run))
        yield case
    # Under a class of their own, so that dashboards do not count them as a benchmark's failures.
    faults = {f"test_gate[{gate}]": why for gate, why in run.errors.items()}
    if run.failure:
        faults["stopped"] = run.failure
    for name, why in faults.items():
        case = TestCase(name, f"{CLASS}.error")
        case.add_error_info(sanitize(why.partition("\n")[0], 500))
        yield case


def _as_text(properties: Properties) -> str:
    """Show a case's properties as its output: the library supports them only on suites."""
    return "\n".join(f"{name} = {value}" for name, value in properties.items())
