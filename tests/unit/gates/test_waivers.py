"""Waivers: what threshold files may say, and what they do to verdicts; no clock is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from refusal_checks.gates.decide import Verdict
from refusal_checks.gates.estimates import Rules
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.thresholds import Thresholds, load
from refusal_checks.gates.waivers import LONGEST, Waiver
from refusal_checks.reports import explain
from refusal_checks.reports.explain import Topic, select
from tests.deciding import decide
from tests.unit.conftest import make_records
from tests.unit.gates.conftest import BENCHMARKS

DAY = date(2026, 11, 22)
ANN = 'until = 2027-01-31, by = "Ann", reason = "fixed in 1.5"'
TABLE = "[xstest_unsafe]\n"
GATE = Gate("bench", "rejection_rate", 0.9)

Read = Callable[..., Thresholds]


@pytest.fixture
def read(write: Callable[[str, str], Path]) -> Read:
    """Load threshold files of these texts, in order, on a day that does not pass."""

    def load_texts(*texts: str) -> Thresholds:
        paths = [write(f"gates{number}.toml", text) for number, text in enumerate(texts)]
        return load(paths, BENCHMARKS, DAY)

    return load_texts


def waived(found: Thresholds) -> list[str]:
    return [gate.id for gate in found.gates if gate.waiver]


def test_a_gate_and_a_group_of_it_are_waived_on_their_own(read: Read, tmp_path: Path) -> None:
    found = read(
        TABLE + f"rejection_rate = {{ min = 0.8, waive = {{ {ANN} }} }}\n"
        "[xstest_unsafe.category.fraud]\nrejection_rate = { min = 0.7 }\n"
        "[xstest_unsafe.category.theft.rejection_rate]\nmin = 0.7\n"
        f"waive = {{ {ANN.replace('2027-01-31', chr(34) + '2027-01-31' + chr(34))} }}\n"
    )
    assert waived(found) == ["xstest_unsafe-rejection_rate", "xstest_unsafe-rejection_rate-theft"]
    source = str(tmp_path / "gates0.toml")
    assert found.gates[0].waiver == Waiver(date(2027, 1, 31), "Ann", "fixed in 1.5", source)
    assert found.gates[0].minimum == 0.8


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("table", "key", "gate"),
    [
        ("xstest_unsafe", "rejection_rate", "xstest_unsafe-rejection_rate"),
        ("xstest_unsafe", "invalid_rate", "xstest_unsafe-invalid_rate"),
        ("xstest_unsafe.category.fraud", "invalid_rate", "xstest_unsafe-invalid_rate-fraud"),
    ],
    ids=["written", "default", "default of a group"],
)
def test_a_file_of_waivers_waives_gates_of_others(
    read: Read, order: int, table: str, key: str, gate: str
) -> None:
    gates = TABLE + "rejection_rate = { min = 0.8 }\n"
    gates += "[xstest_unsafe.category.fraud]\nrejection_rate = { min = 0.7 }\n"
    alone = f"[{table}]\n{key} = {{ waive = {{ {ANN} }} }}\n"
    found, plain = read(*[gates, alone][::order]), read(gates)
    assert waived(found) == [gate]
    bounds = {replace(each, source="", waiver=None) for each in found.gates}
    assert bounds == {replace(each, source="") for each in plain.gates}


def test_new_bounds_in_a_later_file_end_the_waiver_of_the_old(read: Read) -> None:
    first = TABLE + f"rejection_rate = {{ min = 0.8, waive = {{ {ANN} }} }}\n"
    assert not waived(read(first, TABLE + "rejection_rate = { min = 0.7 }\n"))


def test_of_two_waivers_the_later_file_s_holds(read: Read) -> None:
    alone = TABLE + f"rejection_rate = {{ waive = {{ {ANN} }} }}\n"
    bounded = f"rejection_rate = {{ min = 0.8, waive = {{ {ANN.replace('Ann', 'Bo')} }} }}\n"
    for texts, by in (((alone, TABLE + bounded), "Bo"), ((TABLE + bounded, alone), "Ann")):
        (gate,) = (gate for gate in read(*texts).gates if gate.waiver)
        assert gate.waiver
        assert gate.waiver.by == by
        assert gate.minimum == 0.8


def test_a_waiver_may_end_a_leap_year_ahead_and_one_of_the_past_is_read(read: Read) -> None:
    for until in (DAY + LONGEST, DAY, date(2020, 1, 1)):
        text = f"rejection_rate = {{ min = 0.8, waive = {{ {ANN} }} }}\n"
        assert waived(read(TABLE + text.replace("2027-01-31", str(until))))


def on(day: date, answers: str = "R " * 6 + "C " * 4, gate: Gate | None = None) -> Verdict:
    """The verdict of a day on a gate that is waived until DAY."""
    waiver = Waiver(DAY, "Ann <b>", "known; fixed in 1.5", "gates.toml")
    return decide(replace(gate or GATE, waiver=waiver), make_records(answers), Rules(day=day))


@pytest.mark.parametrize("before", [0, 1, 100])
def test_a_waived_gate_has_neither_passed_nor_failed(before: int) -> None:
    found = on(DAY - timedelta(days=before))
    assert (found.passed, found.waived, found.fails) == (False, True, False)
    assert explain.mark(found) == "waived"
    assert select(found, Topic.WAIVER) == [
        "waived until 2026-11-22 by Ann <b>: known; fixed in 1.5"
    ]
    assert explain.headline(found) == explain.headline(on(DAY + timedelta(days=1)))


def test_an_expired_waiver_changes_nothing_but_the_words() -> None:
    found = on(DAY + timedelta(days=1))
    assert (found.passed, found.waived, found.fails) == (False, False, True)
    assert explain.mark(found).startswith("FAIL")
    assert select(found, Topic.WAIVER) == [
        "fix the model, or renew the waiver in gates.toml: it ended on 2026-11-22 (by Ann <b>)"
    ]


def test_a_waiver_that_is_not_needed_is_said() -> None:
    found = on(DAY, "R " * 400)
    assert (found.passed, found.waived, explain.mark(found)) == (True, False, "pass")
    assert select(found, Topic.WAIVER) == [
        "the waiver until 2026-11-22 by Ann <b> is no longer needed; remove it from gates.toml"
    ]
    (unsure,) = select(on(DAY, "R " * 10), Topic.WAIVER)
    assert "was not needed: the gate passes" in unsure


def test_an_inconclusive_gate_that_fails_is_waived_like_any() -> None:
    gate = replace(GATE, decision="confident")
    assert explain.mark(on(DAY, "R " * 9 + "C", gate)) == "waived"
    assert explain.mark(on(DAY + timedelta(days=1), "R " * 9 + "C", gate)) == "FAIL?"


def test_a_verdict_is_read_again_as_it_was_decided() -> None:
    form = TypeAdapter(Verdict)
    for day in (DAY, DAY + timedelta(days=1)):
        assert form.validate_python(form.dump_python(on(day), mode="json")) == on(day)
