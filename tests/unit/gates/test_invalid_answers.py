"""Answers without a verdict: what they may hide, and when that keeps a gate from passing."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.judgements import Binary, Invalid, Label, Reason
from refusal_checks.core.records import Record
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.decision import Rules
from refusal_checks.gates.gate import Gate, Outcome
from refusal_checks.wording.gate_sentences import reasons
from tests.support.deciding import decide
from tests.unit.conftest import record, records
from tests.unit.gates.test_score_files import scores_of

SURE = Gate("bench", "rejection_rate", 0.8, decision="confident")
DROP = Gate("bench", "rejection_rate", max_drop=0.05)
HIDDEN = "R " * 300 + "C " * 20 + "- " * 80
"""93.8% of the valid answers are refusals, 75% of all if the invalid ones hide compliance."""


def test_a_confident_pass_holds_in_both_worst_cases() -> None:
    whole = decide(SURE, records(HIDDEN))
    assert (whole.outcome, whole.passed) == (Outcome.INCONCLUSIVE, False)
    assert whole.invalid.decide
    assert whole.prompts_needed is None
    assert reasons(whole)[1] == (
        "look at the invalid answers first: they decide this gate (75.0% if counted as compliance, "
        "95.0% if counted as refusal)"
    )


FEW_INVALID = Gate("bench", "invalid_rate", max=0.05)
OFTEN, SELDOM = (Gate("bench", "rejection_rate", min=bound) for bound in (0.8, 0.3))


@pytest.mark.parametrize(
    ("gate", "words", "lost", "passed"),
    [
        pytest.param(
            FEW_INVALID, "R " * 90 + "- " * 10, 10, None, id="faults alone miss it"
        ),
        pytest.param(
            FEW_INVALID, "R " * 90 + "- " * 10, 9, None, id="the rest meets the bound"
        ),
        pytest.param(
            FEW_INVALID, "R " * 90 + "- " * 10, 2, False, id="the rest misses it, too"
        ),
        pytest.param(FEW_INVALID, "- " * 10, 10, None, id="nothing else"),
        pytest.param(FEW_INVALID, "R " * 99 + "- ", 1, True, id="within the bound"),
        pytest.param(
            replace(FEW_INVALID, decision="confident"),
            "R " * 96 + "- " * 4,
            4,
            None,
            id="within the bound, and not with confidence",
        ),
        pytest.param(
            OFTEN, "R " * 60 + "C " * 20 + "- " * 20, 20, None, id="it may be 80%"
        ),
        pytest.param(
            OFTEN, "R " * 50 + "C " * 30 + "- " * 20, 20, False, id="70% at most"
        ),
        pytest.param(SELDOM, "R " * 49 + "- " * 51, 51, None, id="most are lost"),
        pytest.param(SELDOM, "R " * 50 + "- " * 50, 50, True, id="half are lost"),
        pytest.param(OFTEN, "C " * 49 + "- " * 51, 51, False, id="51% at most"),
    ],
)
def test_answers_that_a_server_lost_alone_neither_fail_a_gate_nor_pass_it(
    gate: Gate, words: str, lost: int, passed: bool | None
) -> None:
    """Without them it is undecided: an error that says what to do."""
    answers = records(words)
    servers = cycle((Reason.JUDGE_ERROR, Reason.ENGINE_ERROR))
    answers[-lost:] = [
        replace(each, judgement=Invalid(next(servers), "HTTP 503"))
        for each in answers[-lost:]
    ]
    if passed is None:
        told = rf"same command again, .* {lost} of {len(answers)} .*: HTTP 503"
        with pytest.raises(EvaluationError, match=told):
            decide(gate, answers)
    else:
        assert decide(gate, answers).passed is passed


def test_missing_answers_soften_no_breach() -> None:
    lenient = replace(SURE, on_inconclusive="pass")
    for words in ("R " * 10 + "C " * 90, "R " + "C " * 9 + "- " * 90):
        assert decide(lenient, records(words)).outcome is Outcome.FAIL


def test_a_point_gate_passes_by_its_figure_and_says_what_is_in_doubt() -> None:
    found = decide(replace(SURE, decision="point"), records(HIDDEN))
    assert (found.passed, found.outcome) == (True, Outcome.INCONCLUSIVE)
    assert found.invalid.decide


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("R " * 450, "R " * 428 + "- " * 22),
        ("C " * 428 + "- " * 22, "C " * 450),
        ("RRRRR " * 200, "RRRR- " * 200),
    ],
)
def test_a_pair_without_a_verdict_counts_against_the_margin(
    before: str, after: str
) -> None:
    found = decide(DROP, records(after), earlier=Earlier(scores_of(records(before))))
    assert (found.outcome, found.passed) == (Outcome.INCONCLUSIVE, False)
    assert found.invalid.decide
    assert found.prompts_needed is None
    assert "look at the invalid answers first" in reasons(found)[1]


ANSWERS = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from("RC--"), st.none() | st.sampled_from((0.0, -1.0, -4.0))
        ),
        min_size=1,
        max_size=3,
    ),
    min_size=1,
    max_size=4,
)
GATES = st.builds(
    lambda metric, bound, value: replace(
        Gate("bench", metric, decision="confident"), **{bound: value}
    ),
    st.sampled_from(("rejection_rate", "compliance_rate", "neutral_rate")),
    st.sampled_from(("min", "max")),
    st.sampled_from((0.05, 0.3, 0.5, 0.7, 0.95)),
)


def count_invalid(records: list[Record]) -> int:
    return sum(isinstance(record.judgement, Invalid) for record in records)


def judged(records: list[Record]) -> Iterator[list[Record]]:
    """The records with their invalid answers judged in all ways."""
    for labels in product(Label, repeat=count_invalid(records)):
        turn = iter(labels)
        yield [
            replace(record, judgement=Binary(next(turn)))
            if isinstance(record.judgement, Invalid)
            else record
            for record in records
        ]


def passes(gate: Gate, records: list[Record], earlier: Earlier | None = None) -> bool:
    try:
        return decide(gate, records, Rules(0.5), earlier).passed
    except EvaluationError:
        return False


@given(prompts=ANSWERS, gate=GATES, rest=st.sampled_from(("R ", "C ", "R C ")))
def test_what_passes_with_confidence_passes_however_its_answers_are_judged(
    prompts: list[list[tuple[str, float | None]]], gate: Gate, rest: str
) -> None:
    found = records(rest * 8)
    found += [
        record(verdict, f"q{number}", sample, logprob=logprob)
        for number, answers in enumerate(prompts)
        for sample, (verdict, logprob) in enumerate(answers)
    ]
    if count_invalid(found) <= 5 and passes(gate, found):
        assert all(passes(gate, each) for each in judged(found))


WORDS = st.lists(st.text("RC-", min_size=1, max_size=2), min_size=1, max_size=5)


@settings(max_examples=25)
@given(
    before=WORDS,
    after=WORDS,
    margins=st.sampled_from([(None, 0.0), (None, 0.6), (0.1, None), (0.4, None)]),
)
def test_a_margin_that_holds_does_so_however_both_runs_answers_are_judged(
    before: list[str], after: list[str], margins: tuple[float | None, float | None]
) -> None:
    gate = Gate("bench", "rejection_rate", max_drop=margins[0], max_rise=margins[1])
    same = "R R C " * 8
    then, now = records(same + " ".join(before)), records(same + " ".join(after))
    if count_invalid(then + now) > 4 or not passes(gate, now, Earlier(scores_of(then))):
        return
    for old in judged(then):
        earlier = Earlier(scores_of(old))
        assert all(passes(gate, new, earlier) for new in judged(now))


@pytest.mark.parametrize(
    ("words", "passed"),
    [("R " * 98 + "- -", True), ("R - ", False), ("R- " + "RR " * 24, True)],
)
def test_the_share_of_invalid_answers_is_known_and_never_in_doubt(
    words: str, passed: bool
) -> None:
    found = decide(Gate("bench", "invalid_rate", max=0.02), records(words))
    assert (found.passed, found.outcome is Outcome.PASS) == (passed, passed)
