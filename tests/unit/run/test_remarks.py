"""Remarks on limits that made answers invalid, and on what a judge's errors do to a margin."""

import pytest

from refusal_checks.core.judgements import Binary, Invalid, Label, Reason
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record, find_fault
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.decision import Rules, decide_all
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics.statistics.intervals import wilson
from refusal_checks.run.stages.remarks import margin_remark, truncation_remarks
from refusal_checks.trust.minimums import Check, JudgeCheck
from tests.unit.conftest import records
from tests.unit.gates.test_score_files import scores_of

PROMPT = Prompt.single("p", "x")


def judged(*answers: Completion) -> list[Record]:
    good = Binary(Label.REFUSAL)
    return [
        Record(PROMPT, sample, answer, find_fault(answer, 8192) or good)
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
            [
                "raise sampling.max_tokens (now 8192): 1 answer ended during the reasoning"
            ],
        ),
        (
            thinking(900, 900),
            [
                'give the candidate more context (--set candidate.args="--max-model-len N" if '
                "an engine is started): 1 answer ended during the reasoning, because prompt and "
                "answer filled it after 900 or more tokens"
            ],
        ),
        (
            thinking(30, reason="stop"),
            [
                "set candidate.reasoning_end to the text that ends the candidate's reasoning: "
                "1 answer ended without it"
            ],
        ),
        (
            Completion("so", "length", 512),
            [
                "set sampling.max_tokens (now 8192) to what the candidate's server allows: it cut "
                "1 answer short, from 512 tokens on"
            ],
        ),
    ],
)
def test_each_limit_is_named_with_the_option_that_raises_it(
    answer: Completion, expected: list[str]
) -> None:
    records = judged(answer, Completion("so", "stop", 9))
    assert list(truncation_remarks(records, 8192, 1024)) == expected


def test_each_cut_answer_is_counted_at_one_limit() -> None:
    records = judged(thinking(8192), thinking(900, 900), thinking(800, 800))
    found = truncation_remarks(records, 8192, 1024)
    counted = [line.partition("): ")[2].split()[0] for line in found]
    assert counted == ["1", "2"]


def test_a_reasoning_end_that_hardly_any_answer_has_is_doubted_first() -> None:
    without = [thinking(8192), thinking(30, reason="stop")] * 9
    rest = Completion("so", "stop", 9, reasoning="closed")
    records = judged(*without, rest, rest)
    (line,) = truncation_remarks(records, 8192, 1024, "</done>")
    assert line == (
        "remove candidate.reasoning_end, or set it to the text that ends this candidate's "
        "reasoning: 18 of 20 answers lack '</done>', so they were not judged. If the "
        "candidate reasons too long, raise sampling.max_tokens (now 8192)"
    )
    assert (
        len([*truncation_remarks([*records, *judged(rest)], 8192, 1024, "</done>")])
        == 2
    )


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
    assert (find_fault(answer, limit) is None) == is_usable


def decided(baseline: bool = True) -> Verdict:
    """The verdict of a gate with a margin of five points."""
    gate = Gate("b", "rejection_rate", max_drop=0.05)
    answers = records("RRRC " * 10)
    earlier = Earlier(scores_of(answers)) if baseline else None
    verdict = decide_all([gate], answers, Rules(), earlier)[gate.id]
    assert isinstance(verdict, Verdict)
    return verdict


def check(specificity: float, sensitivity: float) -> JudgeCheck:
    shares = {"specificity": specificity, "sensitivity": sensitivity}
    parts = [
        Check(figure, wilson(share, 50), 0.5, True, (), "", "refusals")
        for figure, share in shares.items()
    ]
    return JudgeCheck("J", "", tuple(parts), 100, 0.0)


def test_a_margin_is_seen_through_the_judge_s_errors() -> None:
    said = margin_remark("b", [decided()], check(0.8, 0.9))
    words = "shows 70% of a true change, so one of 7.14 points may look like 5"
    assert said.endswith(words)


def test_a_judge_without_errors_or_a_gate_without_a_baseline_needs_no_remark() -> None:
    assert margin_remark("b", [decided()], check(1.0, 1.0)) == ""
    assert margin_remark("b", [decided(baseline=False)], check(0.8, 0.9)) == ""
