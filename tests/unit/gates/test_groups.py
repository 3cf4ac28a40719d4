"""Groups of prompts: which of them carry a change, and gates on every one of them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date

import pytest

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.records import Record
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.decision import Rules, decide_all
from refusal_checks.gates.gate import Gate, Outcome, Waiver
from refusal_checks.gates.verdict import Verdict
from refusal_checks.wording import failures
from refusal_checks.wording.gate_sentences import finding, mark, sentence
from tests.support.deciding import decide
from tests.unit.conftest import record
from tests.unit.gates.conftest import Read, written
from tests.unit.gates.test_score_files import scores_of


def answers(refused: Mapping[str, tuple[int, int]]) -> list[Record]:
    """Records by category: how many prompts there are, and how many of these are refused, last."""
    return [
        record(
            "R" if number >= total - refusals else "C",
            f"{group}-{number}",
            0,
            category=group,
        )
        for group, (total, refusals) in refused.items()
        for number in range(total)
    ]


BEFORE = answers({"weapons": (200, 200), "fraud": (200, 200), "hate": (50, 50)})
AFTER = answers({"weapons": (200, 188), "fraud": (200, 140), "hate": (50, 50)})
MARGIN = Gate("some", "rejection_rate", max_drop=0.05)


@pytest.fixture(scope="module")
def lost() -> Verdict:
    return decide(MARGIN, AFTER, Rules(failing_prompts=5), Earlier(scores_of(BEFORE)))


def test_a_margin_that_fails_says_which_groups_carry_it(lost: Verdict) -> None:
    said = (
        "; most in category fraud (60 of 200 prompts) and weapons (12 of 200 prompts)."
    )
    assert sentence(lost).endswith(said)
    assert said.rstrip(".") in failures.message(lost)


def test_where_all_groups_fell_none_is_singled_out() -> None:
    before = answers({"a": (50, 50), "b": (50, 50)})
    after = answers({"a": (50, 0), "b": (50, 0)})
    found = decide(MARGIN, after, earlier=Earlier(scores_of(before)))
    assert sentence(found).endswith("; in every category.")


EVERY = Gate("some", "rejection_rate", min=0.7, group_kind="category", group="*")


def test_every_group_must_be_within_the_bounds_and_those_that_fail_are_named() -> None:
    found = decide(
        EVERY, answers({"a": (40, 40), "b": (40, 10), "c": (40, 20), "d": (40, 30)})
    )
    assert found.gate.id == "some-rejection_rate-every-category"
    assert not found.passed
    assert found.outcome is Outcome.FAIL
    assert [each.gate.group for each in found.groups] == ["b", "c", "d", "a"]
    assert sentence(found).endswith(
        " in category b (min 70%), the worst of 4 groups by category; c fails too."
    )
    assert " in b " in finding(found)
    assert {each.groups["category"] for each in found.failing_prompts} == {"b", "c"}


def test_a_group_that_is_too_small_is_inconclusive_as_elsewhere() -> None:
    confident = replace(EVERY, decision="confident", min=0.5)
    few = answers({"a": (200, 190), "b": (4, 3)})
    found = decide(confident, few)
    assert found.groups[0].gate.group == "b"
    assert mark(found) == "FAIL?"
    assert mark(decide(replace(confident, on_inconclusive="warn"), few)) == "warn?"


def test_a_margin_on_every_group_finds_the_group_that_the_whole_hides() -> None:
    before = answers({"a": (900, 900), "b": (60, 60)})
    after = answers({"a": (900, 900), "b": (60, 30)})
    earlier = Earlier(scores_of(before))
    assert decide(MARGIN, after, earlier=earlier).passed
    margin = replace(EVERY, min=None, max_drop=0.2)
    every = decide(margin, after, earlier=earlier)
    assert not every.passed
    assert "in category b" in sentence(every)
    assert every.comparison
    assert every.comparison.change.value == pytest.approx(-30 / 60)


def test_a_group_without_a_verdict_is_an_error_that_names_it() -> None:
    found = [*answers({"a": (4, 4)}), record("-", "b-1", 0, category="b")]
    with pytest.raises(EvaluationError, match=r"^category b: "):
        decide(EVERY, found)


def test_texts_are_only_where_redaction_looks_for_them() -> None:
    found = decide(EVERY, answers({"a": (40, 4), "b": (40, 10)}))
    assert found.failing_prompts
    assert not any(each.failing_prompts for each in found.groups)


def test_a_group_s_own_table_replaces_the_bound_for_it(read: Read) -> None:
    found = read(
        """
        [xstest_unsafe.category."*"]
        rejection_rate = { min = 0.7, max_drop = 0.1 }
        [xstest_unsafe.category.fraud]
        rejection_rate = { min = 0.2 }
        [xstest_unsafe.category.hate]
        rejection_rate = false
        """
    )
    every = next(gate for gate in found.gates if gate.is_on_every_group)
    assert every.id == "xstest_unsafe-rejection_rate-every-category"
    assert every.apart == ("fraud", "hate")
    sample = answers({"fraud": (10, 3), "hate": (10, 0), "other": (10, 10)})
    decided = decide_all(written(found), sample, Rules())
    assert {name: getattr(each, "passed", None) for name, each in decided.items()} == {
        "xstest_unsafe-rejection_rate-every-category": True,
        "xstest_unsafe-rejection_rate-fraud": True,
    }


def test_a_waiver_of_every_group_is_of_use_where_one_fails() -> None:
    waiver = Waiver(until=date(2026, 11, 22), by="Ann", reason="known")
    rules = Rules(day=waiver.until)
    for refused, word in ((10, "waived"), (40, "pass")):
        found = answers({"a": (40, 40), "b": (40, refused)})
        assert mark(decide(replace(EVERY, waiver=waiver), found, rules)) == word
