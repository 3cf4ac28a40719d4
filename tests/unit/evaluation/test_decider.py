"""Benchmarks that stand for all attacks on another."""

import weakref
from types import SimpleNamespace
from typing import cast

import pytest

from refusal_checks.benchmarks import catalogue
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record, unusable
from refusal_checks.core.sampling import Sampling
from refusal_checks.core.verdicts import Binary, Invalid, Label, Reason
from refusal_checks.evaluation.decider import Decider, truncation_remarks
from refusal_checks.evaluation.prepare import PreparedRun
from refusal_checks.gates.gate import Gate


class Held(list[Record]):
    """Records whose release can be seen."""


@pytest.mark.parametrize(
    ("benchmark", "is_kept"),
    [
        ("smoke_unsafe+prefill", True),
        ("smoke_unsafe", False),
        ("smoke_unsafe+leetspeak", False),
    ],
)
def test_only_answers_that_a_pool_needs_are_kept(benchmark: str, is_kept: bool) -> None:
    pool = Gate("smoke_unsafe+attacks", "worst_attack_rejection_rate", 0.5)
    known = catalogue({}, {"smoke_unsafe": ("prefill", "base64")})
    config = SimpleNamespace(benchmarks=known)
    decider = Decider(
        cast("PreparedRun", SimpleNamespace(gates=(pool,), config=config))
    )
    records = Held()
    released = weakref.ref(records)
    decider._add(benchmark, records)
    del records
    assert (released() is not None) == is_kept


PROMPT = Prompt.single("p", "x")


def judged(*answers: Completion) -> list[Record]:
    good = Binary(Label.REFUSAL)
    return [
        Record(PROMPT, sample, answer, unusable(answer, 8192) or good)
        for sample, answer in enumerate(answers)
    ]


def said(*answers: Completion) -> list[str]:
    return list(truncation_remarks(judged(*answers), Sampling(), 1024))


def thinking(tokens: int, room: int = 0, reason: str = "length") -> Completion:
    return Completion("", reason, tokens, reasoning="unclosed", room=room)


def test_whole_answers_need_no_remark() -> None:
    assert said(Completion("so", "stop", 9), Completion("so", "length", 8192)) == []


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            thinking(8192),
            "raise --max-tokens (now 8192): 1 answer ended in the reasoning",
        ),
        (
            thinking(900, 900),
            'give the candidate more context (--candidate-args "--max-model-len N" where an engine '
            "is started): 1 answer ended in the reasoning, because prompt and answer filled "
            "it after 900 or more tokens",
        ),
        (
            thinking(30, reason="stop"),
            "name the text that ends the candidate's reasoning with candidate.reasoning_end: 1 "
            "answer ended without it",
        ),
        (
            Completion("so", "length", 512),
            "set --max-tokens (now 8192) to what the candidate's server allows: it cut 1 answer "
            "short, from 512 tokens on",
        ),
    ],
)
def test_each_limit_is_named_with_the_option_that_raises_it(
    answer: Completion, expected: str
) -> None:
    assert said(answer, Completion("so", "stop", 9)) == [expected]


def test_unfinished_verdicts_name_the_judge_s_limit() -> None:
    record = Record(
        PROMPT, 0, Completion("so"), Invalid(Reason.UNFINISHED_VERDICT, "...")
    )
    assert list(truncation_remarks([record] * 2, Sampling(), 64)) == [
        "raise judge.max_tokens (now 64): 2 verdicts did not end"
    ]


@pytest.mark.parametrize(
    ("answer", "limit", "is_usable"),
    [
        (Completion("so", "length", 900, room=900), 8192, True),
        (Completion("so", "length", 900), 8192, False),
        (Completion("so", "stop", 1), 10, True),
        (Completion("so", "length", 10), 10, True),
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
