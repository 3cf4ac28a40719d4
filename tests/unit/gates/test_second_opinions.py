"""The rate that a second judge would find, from what it decided and from a random sample."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.records import Record, Vote
from refusal_checks.core.verdicts import Binary, Invalid, Judgement, Label, Reason
from refusal_checks.gates import in_words
from refusal_checks.gates.finding import Rules
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.human_rates import HumanRates
from refusal_checks.gates.verdict import Verdict, decide_all
from refusal_checks.judges.cascade import Cascade, SecondOpinions
from refusal_checks.judges.trust.prediction_powered import prediction_powered, with_settled
from refusal_checks.metrics import by_prompt
from refusal_checks.metrics.statistics.intervals import Estimate, wilson
from refusal_checks.reports.explain import explain
from tests.unit.judges.test_cascade import FIRST, RULE, SECOND

Records = Callable[..., list[Record]]
Second = Callable[[Record], Judgement]

GATE = Gate("b", "rejection_rate", minimum=0.5)
CASCADE = Cascade(FIRST, SECOND, RULE)
REFUSAL, COMPLIANCE = Binary(Label.REFUSAL), Binary(Label.COMPLIANCE)
BROKEN = Invalid(Reason.JUDGE_ERROR, "broken")


def same(record: Record) -> Judgement:
    return record.judgement


def seconded(
    judged: Sequence[Record], second: Second, sample: int, unsure: Sequence[str] = ()
) -> tuple[HumanRates, list[Record]]:
    """A cascade's rates and records.

    Args:
        second: what the second judge says of an answer.
        sample: how many prompts are drawn: the first ones.
        unsure: prompts on which the first judge is unsure.
    """
    drawn = frozenset(list(by_prompt(judged))[:sample])

    def record(one: Record) -> Record:
        if not isinstance(one.judgement, Binary):
            return one
        is_unsure = one.prompt.id in unsure
        probability = 0.6 if is_unsure else 0.99 * (one.judgement.label is Label.REFUSAL)
        first, said = replace(one.judgement, probability=probability), second(one)
        if not is_unsure and one.prompt.id not in drawn:
            return replace(one, judgement=first)
        votes = (Vote("bundled", first), Vote("J", said))
        return replace(one, judgement=said if is_unsure else first, votes=votes)

    return HumanRates(second=SecondOpinions(CASCADE, drawn)), [*map(record, judged)]


def test_a_sample_corrects_the_rate_as_people_s_labels_do(records: Records) -> None:
    """The first judge is sure of all, and calls a quarter of the second one's refusals answers."""
    judged = records("R R R C C " * 40)
    given = {r.prompt.id: float(n % 5 < 4) for n, r in enumerate(judged)}

    def second(record: Record) -> Judgement:
        return REFUSAL if given[record.prompt.id] else COMPLIANCE

    rates, seen = seconded(judged, second, 50)
    raw, corrected = rates.views(GATE, seen)
    assert (raw.use, raw.estimate.value) == ("raw", 0.6)
    assert corrected.use == "cascade"
    first = [float(r.judgement.verdict == "refusal") for r in judged]
    people = list(given.values())[:50]
    assert corrected.estimate == prediction_powered(people, first[:50], first[50:])
    assert corrected.estimate.value == pytest.approx(0.8)
    assert corrected.note == "J decided 0 prompts and read 50 of the others"
    assert rates.used(GATE, (raw, corrected)) is corrected
    assert rates.used(replace(GATE, use="raw"), (raw, corrected)) is None
    assert corrected.need is not None


def test_what_the_second_judge_decided_needs_no_sample(records: Records) -> None:
    """It never differs where the first one is sure, and decides the last 20 of 100."""
    unsure = [f"p{number}" for number in range(81, 101)]
    judged = records("R C C C " * 20 + "C " * 20)
    rates, seen = seconded(
        judged, lambda r: REFUSAL if r.prompt.id in unsure else same(r), 40, unsure
    )
    raw, corrected = rates.views(GATE, seen)
    assert raw.estimate.value == 0.4
    assert corrected.estimate.value == pytest.approx(0.4)
    assert corrected.estimate.n == 100
    wide, narrow = (view.estimate.upper - view.estimate.lower for view in (corrected, raw))
    assert 0.17 < narrow < wide < 0.25
    assert corrected.note == "J decided 20 prompts and read 40 of the others"


@pytest.mark.parametrize("unsure", [[], ["p3"]])
def test_a_second_judge_that_read_all_is_the_rate(records: Records, unsure: list[str]) -> None:
    rates, seen = seconded(records("R R C C C C"), lambda r: REFUSAL, 6, unsure)
    _, corrected = rates.views(GATE, seen)
    assert corrected.estimate == wilson(1.0, 6)


def test_a_sample_of_few_prompts_corrects_nothing_and_says_so(records: Records) -> None:
    rates, seen = seconded(records("R " * 30), same, 9)
    (raw,) = rates.views(GATE, seen)
    assert raw.note == (
        "not corrected: J decided 0 prompts and read 9 of the others, at least 10 are needed"
    )
    assert rates.used(GATE, (raw,)) is None


def test_prompts_that_the_second_judge_could_not_judge_count_one_way_then_the_other(
    records: Records,
) -> None:
    rates, seen = seconded(
        records("R C " * 30), lambda r: BROKEN if r.prompt.id in ("p1", "p2") else same(r), 20,
        ["p30"],
    )  # fmt: skip
    _, corrected = rates.views(GATE, seen)
    assert corrected.extremes is not None
    low, high = corrected.extremes
    assert low < corrected.estimate.value < high
    assert corrected.note.endswith("; 2 without a verdict count one way, then the other")
    with pytest.raises(EvaluationError, match="run again: the prompts that the second judge"):
        rates.require_decided(GATE, corrected)


def test_answers_that_nobody_could_judge_are_no_part_of_the_sample(records: Records) -> None:
    judged = [
        replace(r, judgement=Invalid(Reason.EMPTY_ANSWER)) if r.sample else r
        for r in records("RR CC " * 15)
    ]
    rates, seen = seconded(judged, same, 20)
    _, corrected = rates.views(GATE, seen)
    assert corrected.extremes is None
    assert corrected.note == "J decided 0 prompts and read 20 of the others"


def test_unsure_answers_that_the_second_judge_left_open_are_invalid(records: Records) -> None:
    def second(record: Record) -> Judgement:
        return BROKEN if record.prompt.id == "p1" else same(record)

    rates, seen = seconded(records("R C " * 30), second, 30, ["p1"])
    decided = decide_all([GATE], seen, Rules(human=rates))[GATE.id]
    assert isinstance(decided, Verdict)
    assert decided.invalid == pytest.approx(1 / 60)
    assert decided.use == "cascade"


def test_the_verdict_says_which_rate_decides(records: Records) -> None:
    rates, seen = seconded(records("R R R C C " * 40), lambda record: COMPLIANCE, 40)
    decided = decide_all([GATE], seen, Rules(human=rates))[GATE.id]
    assert isinstance(decided, Verdict)
    assert (decided.use, decided.passed) == ("cascade", False)
    assert "corrected by a second judge's sample" in in_words.sentence(decided)
    told = "\n".join(remark.text for remark in explain(decided))
    assert "the figure corrected by the second judge's sample decides" in told


def test_intervals_hold_the_second_judge_s_rate() -> None:
    """300 prompts, a tenth unsure, a sample of 40; the first judge errs on 4% of the others."""
    random.seed(1)
    held = 0
    for _ in range(300):
        truth = [random.random() < 0.3 for _ in range(300)]
        unsure = [random.random() < (0.15 if refused else 0.08) for refused in truth]
        first = [refused != (random.random() < 0.04) for refused in truth]
        drawn = set(random.sample(range(300), 40))
        rest = [n for n in range(300) if not unsure[n]]
        known = [n for n in rest if n in drawn]
        sampled = prediction_powered(
            [float(truth[n]) for n in known],
            [float(first[n]) for n in known],
            [float(first[n]) for n in rest if n not in drawn],
        )
        settled = [truth[n] for n in range(300) if unsure[n]]
        found = with_settled(sampled, wilson(sum(settled) / len(settled), len(settled)))
        held += found.lower <= 0.3 <= found.upper
    assert held / 300 >= 0.93


def test_parts_that_are_equal_have_no_leg_between_them() -> None:
    rest, settled = Estimate(0.5, 0.4, 0.6, 100), Estimate(0.5, 0.5, 0.5, 100)
    found = with_settled(rest, settled)
    assert (found.value, found.n) == (0.5, 200)
    assert [found.lower, found.upper] == pytest.approx([0.45, 0.55])
