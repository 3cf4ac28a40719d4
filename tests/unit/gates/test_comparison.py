"""A run against an earlier one, prompt by prompt."""

from dataclasses import replace

import pytest

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Record
from refusal_checks.gates.comparison import Comparison, Earlier, compare
from refusal_checks.gates.gate import Gate, Outcome
from tests.support.deciding import decide
from tests.unit.conftest import records
from tests.unit.gates.test_score_files import scores_of


def against(
    before: list[Record],
    after: list[Record],
    metric: str = "rejection_rate",
    limit: int = 5,
) -> Comparison:
    earlier = Earlier(scores_of(before))
    found = compare(Gate("bench", metric), after, earlier, level=0.95, limit=limit)
    assert found is not None
    return found


def test_flips_are_listed_each_way_the_largest_moves_first() -> None:
    found = against(records("RRR RRR RRR CCC RRR"), records("CCC RCC RRR RRR RRC"))
    assert (found.lost, found.gained) == (3, 1)
    assert [flip.now.id for flip in found.fell] == ["p1", "p2", "p5"]
    assert [flip.now.id for flip in found.rose] == ["p4"]
    assert (found.fell[0].before, found.fell[0].after) == (1, 0)
    assert found.fell[0].now.verdict == "compliance"
    assert found.fell[0].verdict_before == "refusal"
    assert found.change.value == pytest.approx(-1 / 5)
    assert not found.of_prompts
    same = against(records("R R R C R"), records("C C R R R"))
    assert (same.of_prompts, same.lost, same.gained) == (True, 2, 1)


def test_prompts_that_are_new_reworded_or_unscored_are_not_compared() -> None:
    before, after = records("R R R R R"), records("R C -- R")
    reworded = replace(after[-1], prompt=Prompt.single("p4", "another request"))
    new = replace(after[0], prompt=Prompt.single("p9", "new"))
    found = against(before, [*after[:-1], reworded, new])
    assert found.change.n == 2


def test_an_earlier_answer_is_looked_up_by_its_usual_verdict() -> None:
    earlier = Earlier(
        scores_of(records("CRR")),
        texts=lambda prompt, keys: {keys[-1]: f"one of {keys}"},
    )
    gate = Gate("bench", "rejection_rate")
    found = compare(gate, records("CCC"), earlier, level=0.95, limit=5)
    assert found is not None
    assert found.fell[0].answer_before == "one of ['p1-1', 'p1-2']"
    assert against(records("RRR"), records("CCC")).fell[0].answer_before is None


def margin(**bounds: float) -> Gate:
    return Gate("bench", "rejection_rate", **bounds)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gate", "lost", "gained", "outcome"),
    [
        (margin(max_drop=0.05), 0, 0, Outcome.PASS),
        (margin(max_drop=0.05), 8, 0, Outcome.INCONCLUSIVE),
        (margin(max_drop=0.05), 40, 0, Outcome.FAIL),
        (margin(max_rise=0.05), 0, 40, Outcome.FAIL),
        (margin(max_drop=0.1, max_rise=0.1), 3, 3, Outcome.PASS),
        (margin(max_drop=0.0), 0, 0, Outcome.INCONCLUSIVE),
    ],
)
def test_a_margin_is_kept_broken_or_open(
    gate: Gate, lost: int, gained: int, outcome: Outcome
) -> None:
    rest = 200 - lost - gained
    before = records("R " * lost + "C " * gained + "R " * rest)
    after = records("C " * lost + "R " * gained + "R " * rest)
    verdict = decide(gate, after, earlier=Earlier(scores_of(before)))
    assert verdict.outcome is outcome
    assert verdict.passed is (outcome is Outcome.PASS)


def test_the_worse_of_figure_and_change_decides() -> None:
    before = Earlier(scores_of(records("R " * 100)))
    after = records("R " * 85 + "C " * 15)
    both = Gate("bench", "rejection_rate", 0.5, max_drop=0.02)
    assert not decide(both, after, earlier=before).passed
    assert decide(replace(both, max_drop=0.3), after, earlier=before).passed
    assert not decide(
        replace(both, min=0.9, max_drop=0.3), after, earlier=before
    ).passed


def test_without_a_baseline_margins_are_skipped_and_said_to_be() -> None:
    only = decide(margin(max_drop=0.05), records("C"))
    assert (only.is_idle, only.passed) == (True, True)
    assert "no baseline has" in only.skipped
    beside = decide(margin(min=0.5, max_drop=0.05), records("C " * 20))
    assert (beside.is_idle, beside.passed) == (False, False)
    assert "no baseline has" in beside.skipped


def test_runs_without_a_common_prompt_are_an_error_for_margins_alone() -> None:
    other = [replace(r, prompt=replace(r.prompt, id="q1")) for r in records("R")]
    earlier = Earlier(scores_of(other))
    with pytest.raises(EvaluationError, match="no prompt in common"):
        decide(margin(max_drop=0.1), records("R"), earlier=earlier)
    assert decide(margin(min=0.1), records("R"), earlier=earlier).comparison is None
