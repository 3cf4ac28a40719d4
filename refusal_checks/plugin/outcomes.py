"""What the fixtures of gates assert, and the marks that they leave on pytest's reports.

A gate that fails under a waiver neither passes nor fails. Its test still reports a failure, whose
message begins with the waiver, so no plugin, JUnit file or dashboard shows the gate as passed. It
is left out only of the counts that decide the exit code and stop ``-x``.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import Any

import pytest

from refusal_checks.core.text import sanitize
from refusal_checks.gates.gate import Gate, measured_id
from refusal_checks.gates.verdict import Verdict
from refusal_checks.plugin import InconclusiveWarning
from refusal_checks.plugin.collection import gate_id
from refusal_checks.reports.junit_properties import (
    error_properties,
    gate_properties,
    judge_properties,
    measured_properties,
)
from refusal_checks.results.summary import RunSummary
from refusal_checks.trust.minimums import Figure
from refusal_checks.wording import failures
from refusal_checks.wording.gate_sentences import line

_HEADLINE, _WAIVED = pytest.StashKey[str](), pytest.StashKey[bool]()
_IS_WAIVED = "refusal_checks_waived"
"""An attribute of reports; workers send it with the report."""


def failure(why: str) -> BaseException:
    """A failure with the first line; the rest, perhaps an engine's log, is in the summary."""
    return pytest.fail.Exception(sanitize(why.partition("\n")[0], 500), pytrace=False)


def report_verdict(
    item: pytest.Item, summary: RunSummary, gate: Gate | str
) -> Verdict | None:
    """The verdict of a gate, None for a benchmark's name; its JUnit properties go to the test."""
    if isinstance(gate, str):
        if gate not in summary.benchmarks:
            why = summary.errors.get(measured_id(gate)) or summary.failure
            raise failure(why or "no figures")
        item.user_properties.extend(measured_properties(gate, summary).items())
        return None
    found = summary.verdicts.get(gate.id)
    if found is None:
        why = summary.errors.get(gate.id) or summary.failure or "no verdict"
        properties = error_properties(gate, why.partition("\n")[0], summary)
        item.user_properties.extend(properties.items())
        raise failure(why)
    item.user_properties.extend(gate_properties(found, summary).items())
    return found


def require_pass(item: pytest.Item, verdict: Verdict | None) -> None:
    """Fail the test unless its gate passed or is only measured."""
    if verdict is None:
        return
    if verdict.is_idle:
        pytest.skip(verdict.skipped)
    if verdict.warns:
        warnings.warn(InconclusiveWarning(line(verdict)), stacklevel=2)
    if not verdict.passed:
        item.stash[_HEADLINE] = line(verdict)
        item.stash[_WAIVED] = verdict.waived
        pytest.fail(failures.message(verdict), pytrace=False)


def require_check(summary: RunSummary) -> None:
    """Fail the test if the judge should have been checked but was not."""
    if summary.judge is None and not summary.judge_idle:
        raise failure(summary.judge_error or summary.failure)


def require_trust(item: pytest.Item, summary: RunSummary, figure: Figure) -> None:
    """Fail the test unless the judge passed this check."""
    judge = summary.judge
    if judge is None:
        pytest.skip(summary.judge_idle)
    item.user_properties.extend(judge_properties(judge, figure).items())
    checks = [check for check in judge.checks if check.figure == figure]
    if not checks:
        pytest.skip(f"no selected gate's judge has the figure {figure}")
    failed = [check for check in checks if not check.passed]
    if failed:
        item.stash[_HEADLINE] = "; ".join(check.headline for check in failed)
        lines = chain.from_iterable(map(failures.judge_message, failed))
        pytest.fail("\n".join(lines), pytrace=False)


def mark(item: pytest.Item, report: pytest.TestReport) -> None:
    """Shorten the crash message, an attribute in JUnit, to one line; note a waiver."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None and _HEADLINE in item.stash:
        crash.message = item.stash[_HEADLINE]
        setattr(report, _IS_WAIVED, item.stash.get(_WAIVED, False))


def is_waived(report: pytest.TestReport) -> bool:
    return getattr(report, _IS_WAIVED, False)


SAME = "the same reason as above"
"""Replaces a gate's error that an earlier gate already showed, such as an untrusted judge's."""


def say_once(errors: Iterable[Any], gates: Collection[str]) -> None:
    """Shorten the errors of gates that repeat an earlier one's, which JUnit has in full."""
    said: set[str] = set()
    for report in errors:
        text = str(report.longrepr)
        if gate_id(report.nodeid) in gates:
            if text in said:
                report.longrepr = SAME
            said.add(text)


def shorten(reports: Iterable[Any], verdicts: Mapping[str, Verdict]) -> bool:
    """Shorten the messages of failed gates, which JUnit has in full; True if there were any."""
    shown: set[tuple[str, str]] = set()
    has_shortened = False
    for report in reports:
        verdict = verdicts.get(gate_id(report.nodeid))
        if verdict and str(report.longrepr) == failures.message(verdict):
            report.longrepr = failures.brief_message(verdict, shown)
            has_shortened = True
    return has_shortened
