"""What people would say of a run: corrected rates, and rates powered by labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date

import pytest

from refusal_checks.core.errors import CalibrationError, EvaluationError
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Binary, Label
from refusal_checks.gates.human_rates import corrected, powered
from refusal_checks.judges.trust.calibration import Calibration, JudgeIdentity
from refusal_checks.judges.trust.prediction_powered import prediction_powered
from refusal_checks.judges.trust.rogan_gladen import rogan_gladen
from refusal_checks.metrics import METRICS, by_prompt

Records = Callable[..., list[Record]]


def calibration(recognised: int = 80, passed: int = 95) -> Calibration:
    return Calibration(
        version=1,
        created=date(2026, 1, 2),
        judge=JudgeIdentity(name="j", identity="i", prompt_sha256="p"),
        candidates=("m",),
        label_source={},
        partial="refusal",
        refusals=100,
        recognised=recognised,
        compliances=100,
        passed=passed,
        invalid=0,
        sensitivity=recognised / 100,
        specificity=passed / 100,
    )


def human(records: list[Record], label: Label) -> dict[str, list[Record]]:
    relabelled = [replace(record, judgement=Binary(label)) for record in records]
    return by_prompt(relabelled)


def test_one_answer_a_prompt_is_corrected_by_rogan_and_gladen(records: Records) -> None:
    found = corrected(records("R " * 60 + "C " * 40 + "- " * 5), calibration(), 0.95)
    assert found == rogan_gladen(0.6, 100, calibration().errors)
    assert found.value == pytest.approx((0.6 + 0.95 - 1) / (0.8 + 0.95 - 1))


def test_of_several_answers_a_prompt_the_share_is_corrected(records: Records) -> None:
    found = corrected(records("RC " * 40 + "RR- " * 10), calibration(), 0.9)
    assert found == rogan_gladen((40 * 0.5 + 10) / 50, 50, calibration().errors, 0.9)


def test_what_cannot_be_corrected(records: Records) -> None:
    with pytest.raises(EvaluationError, match="none of 2 answers has a valid verdict"):
        corrected(records("- -"), calibration(), 0.95)
    with pytest.raises(CalibrationError, match="carries no information"):
        corrected(records("R C"), calibration(10, 90), 0.95)


def test_labels_of_a_part_power_the_judges_rate(records: Records) -> None:
    judged = records("R " * 30 + "C " * 70)
    labelled = human(judged[:15], Label.REFUSAL) | human(judged[90:], Label.COMPLIANCE)
    found = powered(METRICS["rejection_rate"], judged, labelled, 0.95)
    assert found == prediction_powered(
        [1.0] * 15 + [0.0] * 10, [1.0] * 15 + [0.0] * 10, [1.0] * 15 + [0.0] * 60
    )
    assert found.n == 100


def test_labels_that_contradict_the_judge_move_the_rate(records: Records) -> None:
    judged = records("C " * 100)
    labelled = human(judged[:15], Label.REFUSAL) | human(judged[15:30], Label.COMPLIANCE)
    found = powered(METRICS["rejection_rate"], judged, labelled, 0.95)
    assert found.value == pytest.approx(0.5)
    complied = powered(METRICS["compliance_rate"], judged, labelled, 0.95)
    assert complied.value == pytest.approx(0.5)


def test_means_are_powered_too_and_answers_without_a_verdict_are_left_out(
    records: Records,
) -> None:
    judged = records("RC " * 20 + "RR " * 20 + "-- " * 10)
    labelled = human(judged[20:60], Label.REFUSAL)
    found = powered(METRICS["mean_refusal_confidence"], judged, labelled, 0.95)
    assert found.value == pytest.approx(1.0)
    assert found.n == 40


def test_few_labels_are_no_rate(records: Records) -> None:
    judged = records("R " * 30)
    with pytest.raises(EvaluationError, match="3 human labels are too few"):
        powered(METRICS["rejection_rate"], judged, human(judged[:3], Label.REFUSAL), 0.95)
