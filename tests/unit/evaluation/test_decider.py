"""What benchmarks that stand for all attacks need; limits that made answers invalid."""

import weakref

import pytest

from refusal_checks.benchmarks import catalogue
from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record, unusable
from refusal_checks.core.verdicts import Binary, Invalid, Label, Reason
from refusal_checks.evaluation.benchmark_figures import truncation_remarks
from refusal_checks.evaluation.decider import AttackPools

PROMPT = Prompt.single("p", "x")
POOL = "smoke_unsafe+attacks"


def pools() -> AttackPools:
    known = catalogue({}, {"smoke_unsafe": ("prefill", "base64")})
    under = known[POOL].under
    return AttackPools(
        {POOL: known[POOL]}, {name: known[name].attack for name in under}
    )


class Answers(list[Record]):
    """Records whose release can be seen."""


@pytest.mark.parametrize(
    ("benchmark", "is_kept"),
    [("smoke_unsafe+prefill", True), ("smoke_unsafe", False)],
)
def test_only_answers_that_a_pool_needs_are_kept(benchmark: str, is_kept: bool) -> None:
    own, records = pools(), Answers()
    released = weakref.ref(records)
    assert list(own.add(benchmark, records)) == []
    del records
    assert (released() is not None) == is_kept


def test_a_pool_is_decided_once_with_the_last_of_its_attacks() -> None:
    own = pools()
    refused, complied = (
        Record(PROMPT, 0, Completion("so"), Binary(label))
        for label in (Label.REFUSAL, Label.COMPLIANCE)
    )
    assert list(own.add("smoke_unsafe+prefill", [refused])) == []
    ((name, worst),) = own.add("smoke_unsafe+base64", [complied])
    assert (name, isinstance(worst, EvaluationError)) == (POOL, False)
    assert list(own.add("smoke_unsafe+base64", [complied])) == []
    assert list(own.give_up("smoke_unsafe+base64")) == []


def test_a_pool_has_no_verdict_where_an_attack_has_none() -> None:
    own = pools()
    assert list(own.give_up("smoke_unsafe+base64")) == [POOL]
    own = pools()
    invalid = Record(PROMPT, 0, None, Invalid(Reason.ENGINE_ERROR, "gone"))
    list(own.add("smoke_unsafe+prefill", [invalid]))
    ((_, worst),) = own.add("smoke_unsafe+base64", [invalid])
    assert isinstance(worst, EvaluationError)


def judged(*answers: Completion) -> list[Record]:
    good = Binary(Label.REFUSAL)
    return [
        Record(PROMPT, sample, answer, unusable(answer, 8192) or good)
        for sample, answer in enumerate(answers)
    ]


def thinking(tokens: int, room: int = 0, reason: str = "length") -> Completion:
    return Completion("", reason, tokens, reasoning="unclosed", room=room)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Completion("so", "length", 8192), []),
        (
            thinking(8192),
            ["raise --max-tokens (now 8192): 1 answer ended in the reasoning"],
        ),
        (
            thinking(900, 900),
            [
                'give the candidate more context (--candidate-args "--max-model-len N" where an '
                "engine is started): 1 answer ended in the reasoning, because prompt and answer "
                "filled it after 900 or more tokens"
            ],
        ),
        (
            thinking(30, reason="stop"),
            [
                "name the text that ends the candidate's reasoning with candidate.reasoning_end: "
                "1 answer ended without it"
            ],
        ),
        (
            Completion("so", "length", 512),
            [
                "set --max-tokens (now 8192) to what the candidate's server allows: it cut 1 "
                "answer short, from 512 tokens on"
            ],
        ),
    ],
)
def test_each_limit_is_named_with_the_option_that_raises_it(
    answer: Completion, expected: list[str]
) -> None:
    records = judged(answer, Completion("so", "stop", 9))
    assert list(truncation_remarks(records, 8192, 1024)) == expected


def test_unfinished_verdicts_name_the_judge_s_limit() -> None:
    unfinished = Invalid(Reason.UNFINISHED_VERDICT, "...")
    record = Record(PROMPT, 0, Completion("so"), unfinished)
    assert list(truncation_remarks([record] * 2, 8192, 64)) == [
        "raise judge.max_tokens (now 64): 2 verdicts did not end"
    ]


@pytest.mark.parametrize(
    ("answer", "limit", "is_usable"),
    [
        (Completion("so", "length", 900, room=900), 8192, True),
        (Completion("so", "length", 900), 8192, False),
        (Completion("so", "stop", 1), 10, True),
        (Completion("so", "length", 0), None, True),
        (
            Completion("I cannot.</think>Sure, like this"),
            10,
            False,
        ),  # begun in the prompt
        (Completion("a tag: <think> ... </think>"), 10, True),
        (Completion("so ends it: </think>", reasoning="closed"), 10, True),
    ],
)
def test_a_full_answer_is_usable(
    answer: Completion, limit: int | None, is_usable: bool
) -> None:
    assert (unusable(answer, limit) is None) == is_usable
