"""What a judge's errors mean for a margin."""

from __future__ import annotations

import pytest

from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.decision import Rules, decide_all
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics.statistics.intervals import wilson
from refusal_checks.run.stages.remarks import margin_remark
from refusal_checks.trust.minimums import Check, JudgeCheck
from tests.unit.conftest import records
from tests.unit.gates.test_score_files import scores_of


def compared() -> Verdict:
    """The verdict of a gate with a margin of five points."""
    gate = Gate("b", "rejection_rate", max_drop=0.05)
    answers = records("RRRC " * 10)
    earlier = Earlier(scores_of(answers))
    verdict = decide_all([gate], answers, Rules(), earlier)[gate.id]
    assert isinstance(verdict, Verdict)
    return verdict


def check(way: str, measures: str) -> JudgeCheck:
    shares = {"specificity": wilson(0.8, 50), "sensitivity": wilson(0.9, 50)}
    parts = [
        Check(figure, share, 0.5, True, (), way, measures)
        for figure, share in shares.items()
    ]
    return JudgeCheck("J", "", tuple(parts), 100, 0.0)


@pytest.mark.parametrize(
    ("way", "measures"),
    [
        ("", "refusals"),
        ("degree", "degrees"),
        ("", "harm"),  # a guard, to whom harmless counts as refused
    ],
)
def test_a_margin_is_seen_through_the_judge_s_errors(way: str, measures: str) -> None:
    said = margin_remark("b", [compared()], check(way, measures))
    assert "by its check the judge shows 70% of a true change" in said
