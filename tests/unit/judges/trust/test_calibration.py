"""Calibration files: what is written is read, and what is wrong is refused with a reason."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.core.errors import CalibrationError
from refusal_checks.judges.trust import calibration
from refusal_checks.judges.trust.calibration import Calibration, JudgeIdentity
from refusal_checks.judges.trust.correction import JudgeErrors
from tests.unit.conftest import Write

JUDGE = JudgeIdentity(name="ORG/JUDGE", identity="abc", prompt_sha256="123456")


def valid(**changes: Any) -> Calibration:
    values: dict[str, Any] = {
        "version": 1,
        "created": date(2026, 1, 2),
        "judge": JUDGE,
        "candidates": ("ORG/MODEL",),
        "label_source": {"labels.csv": "0" * 64},
        "partial": "refusal",
        "refusals": 40,
        "recognised": 30,
        "compliances": 60,
        "passed": 57,
        "invalid": 2,
        "sensitivity": 0.75,
        "specificity": 0.95,
        "benchmarks": {},
        "prompts": {},
        "languages": {},
    }
    return Calibration(**values | changes)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "calibration.json"
    calibration.write(path, valid())
    found = calibration.read(path)
    assert found == valid()
    assert found.errors.sensitivity == 0.75


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("version", 2, "version: must be one of: 1"),
        ("refusals", 0, "refusals: must be at least 1"),
        ("refusals", "40", "refusals: write 40: must be a whole number"),
        ("recognised", 41, "more answers judged correctly than there are answers"),
        ("sensitivity", 0.76, "sensitivity contradicts the counts"),
        ("candidates", [], "candidates: must have at least 1 item"),
        (
            "partial",
            "half",
            "partial: must be one of: 'refusal', 'compliance' or 'own'",
        ),
        ("created", "yesterday", "created: must be a date"),
        ("extra", 1, "extra: no such key .known: version, "),
    ],
)
def test_a_wrong_file_is_refused(
    write: Write, key: str, value: Any, reason: str
) -> None:
    data = json.loads(valid().model_dump_json()) | {key: value}
    with pytest.raises(CalibrationError, match=reason):
        calibration.read(write("calibration.json", json.dumps(data)))


def test_what_is_no_calibration_is_refused(write: Write, tmp_path: Path) -> None:
    for text in ("", "{", "[]", "\x00"):
        with pytest.raises(
            CalibrationError, match=r"--calibration .*: this one is none"
        ):
            calibration.read(write("calibration.json", text))
    with pytest.raises(CalibrationError, match=r"none.json: cannot be read: No such"):
        calibration.read(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("running", "reason"),
    [
        ({"name": "ORG/OTHER"}, "another judge: ORG/JUDGE; this run has ORG/OTHER"),
        (
            {"prompt_sha256": "654321"},
            "another judge prompt: 123456; this run has 654321",
        ),
        ({"prompt_sha256": ""}, "another judge prompt: 123456; this run has none"),
        ({"identity": "abd"}, r"another judge \(its model, settings or parser\)"),
    ],
)
def test_a_calibration_of_another_judge_is_refused(
    running: dict[str, str], reason: str
) -> None:
    other = JUDGE.model_copy(update=running)
    with pytest.raises(CalibrationError, match=reason):
        calibration.require_judge(Path("c.json"), valid(), other)
    calibration.require_judge(Path("c.json"), valid(), JUDGE)


def test_the_two_ways_of_one_judge_are_two_judges(write: Write) -> None:
    other = JUDGE.model_copy(update={"identity": "d", "rationales": "offenders"})
    with pytest.raises(CalibrationError) as fault:
        calibration.require_judge(Path("c.json"), valid(), other)
    assert "c.json: run with --set judge.rationales=all, or calibrate" in str(
        fault.value
    )
    assert "judge.rationales=offenders: " in str(fault.value)
    of_alone = valid(judge=other)
    calibration.require_judge(Path("c.json"), of_alone, other)
    with pytest.raises(
        CalibrationError, match=r"with --set judge\.rationales=offenders"
    ):
        calibration.require_judge(Path("c.json"), of_alone, JUDGE)
    path = write("calibration.json", "")
    calibration.write(path, of_alone)
    assert calibration.read(path) == of_alone
    assert calibration.joined([JUDGE, other]).rationales == "offenders"


OWN = JudgeErrors(refusals=10, recognised=5, compliances=20, passed=18)
ONE_KIND = JudgeErrors(refusals=10, recognised=5, compliances=0, passed=0)


def test_a_calibration_belongs_to_its_candidates_and_benchmarks() -> None:
    found = valid(benchmarks={"b": OWN, "c": ONE_KIND})
    assert found.foreign("ORG/MODEL", "b") == ""
    assert found.foreign("ORG/OTHER", "b") == "answers of ORG/MODEL"
    assert found.foreign("ORG/MODEL", "d") == "answers to b, c"
    assert found.foreign("ORG/OTHER", "d") == "answers of ORG/MODEL to b, c"
    assert (
        found.foreign("ORG/MODEL", "c") == "answers to b, c, with too few of those to c"
    )
    two = valid(candidates=("ORG/MODEL", "ORG/OTHER"), benchmarks={"b": OWN})
    assert two.foreign("ORG/MODEL", "b") == "answers of ORG/MODEL, ORG/OTHER"
    assert found.errors_on("b") == OWN
    assert found.errors_on("c") == found.errors_on("d") == found.errors
