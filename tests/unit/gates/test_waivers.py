"""What waivers do to verdicts; no clock is asked. Their tables stand in ``files.txt``."""

from dataclasses import replace
from datetime import date, timedelta

import pytest

from refusal_checks.gates.decision import Rules
from refusal_checks.gates.gate import Decision, Gate, Waiver
from refusal_checks.wording import gate_sentences
from tests.support.deciding import decide
from tests.unit.conftest import records

DAY = date(2026, 11, 22)
FEW, CLOSE = "R " * 6 + "C " * 4, "R " * 9 + "C"
WAIVED = "waived until 2026-11-22 by Ann <b>: known; fixed in 1.5"
EXPIRED = "fix the model, or renew the waiver in gates.toml: it ended on 2026-11-22 (by Ann <b>)"
NEEDLESS = "from gates.toml: the gate passes without it"


@pytest.mark.parametrize(
    ("days", "answers", "decision", "mark", "said"),
    [
        (0, FEW, "point", "waived", WAIVED),
        (1, FEW, "point", "FAIL", EXPIRED),
        (0, CLOSE, "confident", "waived", WAIVED),
        (1, CLOSE, "confident", "FAIL?", EXPIRED),
        (0, "R " * 400, "point", "pass", NEEDLESS),
        (0, "R " * 10, "point", "pass?", NEEDLESS),
    ],
)
def test_a_waiver_holds_until_its_day_and_changes_no_figure(
    days: int, answers: str, decision: Decision, mark: str, said: str
) -> None:
    waiver = Waiver(
        until=DAY, by="Ann <b>", reason="known; fixed in 1.5", source="gates.toml"
    )
    plain = Gate("bench", "rejection_rate", 0.9, decision=decision)
    gate = replace(plain, waiver=waiver)
    rules = Rules(day=DAY + timedelta(days=days))
    found, without = (decide(each, records(answers), rules) for each in (gate, plain))
    assert gate_sentences.mark(found) == mark
    assert (found.waived, found.fails) == (mark == "waived", mark.startswith("FAIL"))
    assert found.passed is mark.startswith("pass")
    (line,) = gate_sentences.waiver(found)
    assert said in line
    assert replace(found, waived=False, gate=plain) == without
