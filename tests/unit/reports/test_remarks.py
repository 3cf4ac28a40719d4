"""What the end of a run says of the judges that were asked."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatch

import pytest

from refusal_checks.judges.cascade import Asked
from refusal_checks.reports.remarks import SCOPE, bundled_scope, reasons_line, second_judge_line
from refusal_checks.results.manifest import Manifest, ModelFacts, Models
from refusal_checks.results.summary import BenchmarkSummary, Reasons, RunSummary

BENCHMARK = BenchmarkSummary(prompts=80, answers=400, figures={}, groups={}, invalid={})
ASKED = Asked("bundled", "org/j\x1b[31m", 30, 12, 20, 400, 1)


def run(*judges: str) -> RunSummary:
    return RunSummary(Manifest(models=Models(judges=dict.fromkeys(judges, ModelFacts()))))


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([run("bundled")], [SCOPE]),
        ([run("org/j"), run("org/j", "bundled"), run("bundled")], [SCOPE]),
        ([run("keyword")], []),
        ([], []),
    ],
)
def test_where_the_bundled_judge_was_measured_is_said_once(
    runs: list[RunSummary], said: list[str]
) -> None:
    assert list(bundled_scope(runs)) == said


def test_how_often_a_second_judge_was_asked() -> None:
    assert list(second_judge_line("xstest", BENCHMARK)) == []
    assert list(second_judge_line("xstest", replace(BENCHMARK, second=ASKED))) == [
        "xstest: org/j was asked about 42 of 400 answers: 30 of which bundled was unsure, 12 more "
        "of 20 prompts drawn at random (other verdicts: 1)"
    ]
    without = replace(ASKED, sampled=0, prompts=0, differs=0)
    assert list(second_judge_line("xstest", replace(BENCHMARK, second=without))) == [
        "xstest: org/j was asked about 30 of 400 answers: 30 of which bundled was unsure"
    ]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, []),
        (Reasons(400, 0, 0, 0, 0, 0, 0), ["xstest: verdicts without reasons, and no ways *"]),
        (Reasons(0, 200, 0, 0, 0, 0, 0), ["xstest: verdicts alone; no ways of refusing *"]),
        (
            Reasons(400, 30, 20, 19, 18, 1, 1),
            [
                "xstest: verdicts alone; *in a sample of 20 of 400 answers, *: 18 of 19 come *"
                "; 1 verdict to be shown with reasons had none: *"
            ],
        ),
    ],
)
def test_of_which_answers_reasons_were_asked_for(found: Reasons | None, said: list[str]) -> None:
    lines = list(reasons_line("xstest", replace(BENCHMARK, reasons=found)))
    assert len(lines) == len(said)
    assert all(map(fnmatch, lines, said))
