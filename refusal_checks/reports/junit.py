"""Write a result as JUnit XML without pytest: a case per gate and per check of the judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from refusal_checks.core.files import write_text
from refusal_checks.core.text import clean
from refusal_checks.judges.trust.check_sets import KINDS
from refusal_checks.reports import junit_properties
from refusal_checks.reports.run_view import RunView
from refusal_checks.reports.wording import failures

if TYPE_CHECKING:
    from junit_xml import TestCase

CLASS = "refusal_checks"
"""Start of the class names of gates; a benchmark's name follows."""


def write(run: RunView, path: Path) -> None:
    from junit_xml import TestSuite, to_xml_report_string

    properties = junit_properties.of_decision(run.decision)
    suite = TestSuite(
        clean(run.candidate, 200), list(_cases(run)), properties=properties
    )
    write_text(path, to_xml_report_string([suite], prettyprint=False))


def _cases(run: RunView) -> Iterator[TestCase]:
    from junit_xml import TestCase

    summary = run.summary
    for check in summary.judge.checks if summary.judge else ():
        case = TestCase(f"test_judge[{check.name}]", f"{CLASS}.judge")
        if not check.passed and check.figure not in KINDS:
            text = "\n".join(failures.judge_message(check))
            case.add_failure_info(clean(check.headline, 500), text)
        yield case
    for gate, verdict in summary.verdicts.items():
        case = TestCase(f"test_gate[{gate}]", f"{CLASS}.{verdict.gate.benchmark}")
        facts = junit_properties.provenance(summary, verdict.gate.benchmark)
        case.stdout = _as_text(junit_properties.of_gate(verdict, facts))
        if verdict.is_idle:
            case.add_skipped_info(clean(verdict.skipped, 500))
        elif not verdict.passed:
            line = clean(failures.failure_line(verdict), 500)
            case.add_failure_info(line, failures.message(verdict))
        yield case
    for gate, error in summary.errors.items():
        case = TestCase(f"test_gate[{gate}]", f"{CLASS}.error")
        case.add_error_info(clean(error.partition("\n")[0], 500))
        yield case
    if summary.failure:
        case = TestCase("stopped", f"{CLASS}.run")
        case.add_error_info(clean(summary.failure.partition("\n")[0], 500))
        yield case


def _as_text(properties: Iterable[tuple[str, str]]) -> str:
    """Show a case's properties as its output: JUnit has properties only for suites."""
    return "\n".join(f"{name} = {value}" for name, value in properties)
