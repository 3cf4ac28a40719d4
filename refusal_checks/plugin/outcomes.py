"""Fixtures that assert on the result, and how pytest counts and shows their outcomes.

A gate that fails under a waiver neither passes nor fails. Its test's report stays a failure whose
message begins with the waiver, so no plugin, JUnit file or dashboard takes the gate for passed.
Only the counts that decide the exit code and stop ``-x`` leave it out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.text import clean
from refusal_checks.gates.gate import Gate, measured_id
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges.trust.floors import Figure
from refusal_checks.plugin import xdist
from refusal_checks.plugin.gate_session import GateSession
from refusal_checks.plugin.inconclusive import InconclusiveWarning
from refusal_checks.reports import junit
from refusal_checks.reports.wording import failures
from refusal_checks.reports.wording.verdicts import doubt

if TYPE_CHECKING:
    from refusal_checks.evaluation.result import RunResult


_HEADLINE, _WAIVED = pytest.StashKey[str](), pytest.StashKey[bool]()
_IS_WAIVED = "refusal_checks_waived"
"""An attribute of reports; workers send it with the report."""


class Outcomes:
    """A plugin that is registered with ``Gates``.

    Attributes:
        failed: phase in which each failed test failed, by node id.
    """

    def __init__(self, config: pytest.Config, session: GateSession) -> None:
        self._config = config
        self._session = session
        self.failed: dict[str, str] = {}

    def result(self) -> RunResult:
        try:
            return self._session.result()
        except EvaluationError as fault:
            raise _first_line(fault) from None

    def verdict(
        self, request: pytest.FixtureRequest, gate: Gate | str
    ) -> Verdict | None:
        summary = self.result().summary
        if isinstance(gate, str):
            figures = summary.benchmarks.get(gate)
            if figures is None:
                why = summary.errors.get(measured_id(gate)) or summary.failure
                raise _first_line(EvaluationError(why or "no figures"))
            properties = junit.of_measured(gate, summary)
            request.node.user_properties.extend(properties.items())
            return None
        verdict = summary.verdicts.get(gate.id)
        if verdict is None:
            why = summary.errors.get(gate.id) or summary.failure or "no verdict"
            properties = junit.of_error(gate, why.partition("\n")[0], summary)
            request.node.user_properties.extend(properties.items())
            raise _first_line(EvaluationError(why))
        properties = junit.of_gate(verdict, summary)
        request.node.user_properties.extend(properties.items())
        return verdict

    def pass_check(
        self, request: pytest.FixtureRequest, verdict: Verdict | None
    ) -> Callable[[], None]:

        def check() -> None:
            if verdict is None:  # measured, not gated
                return
            if verdict.is_idle:
                pytest.skip(verdict.skipped)
            if verdict.warns:
                warnings.warn(InconclusiveWarning(doubt(verdict)), stacklevel=2)
            if not verdict.passed:
                request.node.stash[_HEADLINE] = failures.failure_line(verdict)
                request.node.stash[_WAIVED] = verdict.waived
                pytest.fail(failures.message(verdict), pytrace=False)

        return check

    def trust_check(
        self, request: pytest.FixtureRequest, figure: Figure
    ) -> Callable[[], None]:
        summary = self.result().summary
        judge = summary.judge
        if judge is None and not summary.judge_idle:
            raise _first_line(EvaluationError(summary.judge_error or summary.failure))

        def require_trust() -> None:
            if judge is None:
                pytest.skip(summary.judge_idle)
            checks = [check for check in judge.checks if check.figure == figure]
            if not checks:
                pytest.skip(f"no selected gate has a judge with a figure {figure}")
            failed = [check for check in checks if not check.passed]
            if failed:
                headlines = [check.headline for check in failed]
                request.node.stash[_HEADLINE] = "; ".join(headlines)
                lines = chain.from_iterable(map(failures.judge_message, failed))
                pytest.fail("\n".join(lines), pytrace=False)

        if judge:
            properties = junit.of_judge(judge, figure)
            request.node.user_properties.extend(properties.items())
        return require_trust

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Shorten the crash message, an attribute in JUnit, to one line."""
        report = yield
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash is not None and _HEADLINE in item.stash:
            crash.message = item.stash[_HEADLINE]
            setattr(report, _IS_WAIVED, item.stash.get(_WAIVED, False))
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(
        self, report: pytest.TestReport
    ) -> Generator[None, object, object]:
        """Note what failed; offset a waived gate's failure before pytest counts it."""
        if report.failed:
            self.failed[report.nodeid] = report.when or ""
        if getattr(report, _IS_WAIVED, False):
            session: Any = self._config.pluginmanager.get_plugin("session")
            session.testsfailed -= 1
            xdist.uncount_failure(self._config)
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(
        self, report: pytest.TestReport
    ) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        """Return category, letter and word of a waived gate."""
        is_waived = getattr(report, _IS_WAIVED, False)
        return ("waived", "W", ("WAIVED", {"yellow": True})) if is_waived else None


def _first_line(fault: EvaluationError) -> BaseException:
    """The first line of a failure; the summary has the rest, which may be an engine's log."""
    return pytest.fail.Exception(
        clean(str(fault).partition("\n")[0], 500), pytrace=False
    )
