"""What the end of a run says of the judges that were asked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from refusal_checks.judges.cascade import Asked
from refusal_checks.reports.remarks import SCOPE, bundled_scope, judges_asked
from refusal_checks.results.manifest import Manifest, ModelFacts, Models
from refusal_checks.results.summary import BenchmarkSummary, Reasons, RunSummary

BENCHMARK = BenchmarkSummary(prompts=80, answers=400, figures={}, groups={}, invalid={})
ASKED = Asked("bundled", "org/j\x1b[31m", 30, 12, 20, 400, 1)


def run(*judges: str) -> RunSummary:
    return RunSummary(Manifest(models=Models(judges=dict.fromkeys(judges, ModelFacts()))))


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([run("org/j"), run("org/j", "bundled"), run("bundled")], [SCOPE]),
        ([run("keyword")], []),
        ([], []),
    ],
)
def test_where_the_bundled_judge_was_measured_is_said_once(
    runs: list[RunSummary], said: list[str]
) -> None:
    assert list(bundled_scope(runs)) == said


def test_what_judges_were_asked(snapshot: SnapshotAssertion) -> None:
    benchmarks = [
        BENCHMARK,
        replace(BENCHMARK, second=ASKED),
        replace(BENCHMARK, second=replace(ASKED, sampled=0, prompts=0, differs=0)),
        replace(BENCHMARK, reasons=Reasons(400, 0, 0, 0, 0, 0, 0)),
        replace(BENCHMARK, reasons=Reasons(0, 200, 0, 0, 0, 0, 0)),
        replace(BENCHMARK, reasons=Reasons(400, 30, 20, 19, 18, 1, 1)),
    ]
    assert [[*judges_asked("xstest", each)] for each in benchmarks] == snapshot
