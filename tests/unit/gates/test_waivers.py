"""What waivers do to verdicts; no clock is asked. Their tables stand in ``files.txt``."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest
from pydantic import TypeAdapter

from refusal_checks.gates.decide import Verdict
from refusal_checks.gates.estimates import Rules
from refusal_checks.gates.gate import Gate, Waiver
from refusal_checks.reports import explain
from refusal_checks.reports.explain import select
from tests.deciding import decide
from tests.unit.conftest import make_records

DAY = date(2026, 11, 22)
GATE = Gate("bench", "rejection_rate", 0.9)


def on(day: date, answers: str = "R " * 6 + "C " * 4, gate: Gate | None = None) -> Verdict:
    """The verdict of a day on a gate that is waived until DAY."""
    waiver = Waiver(DAY, "Ann <b>", "known; fixed in 1.5", "gates.toml")
    return decide(replace(gate or GATE, waiver=waiver), make_records(answers), Rules(day=day))


@pytest.mark.parametrize("before", [0, 1, 100])
def test_a_waived_gate_has_neither_passed_nor_failed(before: int) -> None:
    found = on(DAY - timedelta(days=before))
    assert (found.passed, found.waived, found.fails) == (False, True, False)
    assert explain.mark(found) == "waived"
    assert select(found, "waiver") == ["waived until 2026-11-22 by Ann <b>: known; fixed in 1.5"]
    assert explain.headline(found) == explain.headline(on(DAY + timedelta(days=1)))


def test_an_expired_waiver_changes_nothing_but_the_words() -> None:
    found = on(DAY + timedelta(days=1))
    assert (found.passed, found.waived, found.fails) == (False, False, True)
    assert explain.mark(found).startswith("FAIL")
    assert select(found, "waiver") == [
        "fix the model, or renew the waiver in gates.toml: it ended on 2026-11-22 (by Ann <b>)"
    ]


def test_a_waiver_that_is_not_needed_is_said() -> None:
    found = on(DAY, "R " * 400)
    assert (found.passed, found.waived, explain.mark(found)) == (True, False, "pass")
    assert select(found, "waiver") == [
        "the waiver until 2026-11-22 by Ann <b> is no longer needed; remove it from gates.toml"
    ]
    (unsure,) = select(on(DAY, "R " * 10), "waiver")
    assert "was not needed: the gate passes" in unsure


def test_an_inconclusive_gate_that_fails_is_waived_like_any() -> None:
    gate = replace(GATE, decision="confident")
    assert explain.mark(on(DAY, "R " * 9 + "C", gate)) == "waived"
    assert explain.mark(on(DAY + timedelta(days=1), "R " * 9 + "C", gate)) == "FAIL?"


def test_a_verdict_is_read_again_as_it_was_decided() -> None:
    form = TypeAdapter(Verdict)
    for day in (DAY, DAY + timedelta(days=1)):
        assert form.validate_python(form.dump_python(on(day), mode="json")) == on(day)
