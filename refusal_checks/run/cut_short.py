"""What to do about answers and verdicts that a limit on tokens cut short, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from refusal_checks.core.records import Completion, Record
from refusal_checks.core.settings import JudgeSampling, Sampling
from refusal_checks.core.text import count
from refusal_checks.core.verdicts import Invalid, Reason


def remarks(
    records: Sequence[Record], sampling: Sampling, judge_sampling: JudgeSampling
) -> Iterator[str]:
    """A line for each limit that made answers of a benchmark invalid: the option that raises it."""
    unclosed, unfinished = (
        _of(records, Reason.UNCLOSED_REASONING),
        _of(records, Reason.UNFINISHED_ANSWER),
    )
    cut = [answer for answer in unclosed if answer.finish_reason == "length"]
    full = [answer for answer in cut if answer.room]
    if len(cut) > len(full):
        answers = count(len(cut) - len(full), "answer")
        yield f"raise --max-tokens (now {sampling.max_tokens}): {answers} ended in the reasoning"
    if full:
        yield (
            'give the candidate more context (--candidate-args "--max-model-len N" where an engine '
            f"is started): {count(len(full), 'answer')} ended in the reasoning, because prompt "
            f"and answer filled it after {min(answer.room for answer in full)} or more tokens"
        )
    if len(unclosed) > len(cut):
        yield (
            "name the text that ends the candidate's reasoning with --candidate-reasoning-end: "
            f"{count(len(unclosed) - len(cut), 'answer')} ended without it"
        )
    shorter = [answer.tokens for answer in unfinished if answer.finish_reason == "length"]
    if shorter:
        yield (
            f"set --max-tokens (now {sampling.max_tokens}) to what the candidate's server allows: "
            f"it cut {count(len(shorter), 'answer')} short, from {min(shorter)} tokens on"
        )
    if verdicts := sum(_reason(record) is Reason.UNFINISHED_VERDICT for record in records):
        yield (
            f"raise --judge-max-tokens (now {judge_sampling.max_tokens}): "
            f"{count(verdicts, 'verdict')} did not end"
        )


def _of(records: Sequence[Record], reason: Reason) -> list[Completion]:
    found = (record.completion for record in records if _reason(record) is reason)
    return [answer for answer in found if answer]


def _reason(record: Record) -> Reason | None:
    return record.judgement.reason if isinstance(record.judgement, Invalid) else None
