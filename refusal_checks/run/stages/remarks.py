"""Remarks on a complete benchmark: limits that cut answers, margins too narrow for the judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from refusal_checks.core.judgements import Binary, Invalid, Reason
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.text import count, sanitize
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS
from refusal_checks.trust.minimums import JudgeCheck

HARDLY_ANY = 0.9
"""The text that ends reasoning is in doubt if this share of answers lacks it."""


def truncation_remarks(
    records: Sequence[Record],
    max_tokens: int | None,
    judge_tokens: int,
    reasoning_end: str = "",
) -> Iterator[str]:
    """A line for each limit that made answers invalid, with the setting to raise.

    Args:
        max_tokens: the most that the candidate may write for one answer.
        judge_tokens: the most that a judge may write for one verdict.
        reasoning_end: the text that ends the candidate's reasoning, as the run file says.
    """
    faults: dict[Reason, list[Completion]] = {}
    for record in records:
        if isinstance(record.judgement, Invalid) and record.completion:
            faults.setdefault(record.judgement.reason, []).append(record.completion)

    unclosed = faults.get(Reason.UNCLOSED_REASONING, [])
    cut = [answer for answer in unclosed if answer.finish_reason == "length"]
    filled = [answer for answer in cut if answer.room]
    answered = sum(record.completion is not None for record in records)
    if reasoning_end and len(unclosed) >= HARDLY_ANY * answered > 0:
        yield (
            "remove candidate.reasoning_end, or set it to the text that ends this candidate's "
            f"reasoning: {len(unclosed)} of {count(answered, 'answer')} lack "
            f"'{sanitize(reasoning_end, 60)}', so they were not judged. If the candidate "
            f"reasons too long, raise sampling.max_tokens (now {max_tokens})"
        )
        cut = filled = unclosed = []
    if len(cut) > len(filled):
        answers = count(len(cut) - len(filled), "answer")
        yield f"raise sampling.max_tokens (now {max_tokens}): {answers} ended during the reasoning"
    if filled:
        yield (
            'give the candidate more context (--set candidate.args="--max-model-len N" '
            f"if an engine is started): {count(len(filled), 'answer')} ended during the "
            "reasoning, because prompt and answer filled it after "
            f"{min(answer.room for answer in filled)} or more tokens"
        )
    if len(unclosed) > len(cut):
        yield (
            "set candidate.reasoning_end to the text that ends the candidate's reasoning: "
            f"{count(len(unclosed) - len(cut), 'answer')} ended without it"
        )

    filtered = faults.get(Reason.FILTERED_ANSWER, [])
    if filtered:
        yield (
            'set candidate.filtered = "refusal" if users get the same content filter, to count '
            f"them as refusals: it withheld {count(len(filtered), 'answer')}"
        )
    unfinished = faults.get(Reason.UNFINISHED_ANSWER, [])
    lengths = [
        answer.tokens for answer in unfinished if answer.finish_reason == "length"
    ]
    if lengths:
        yield (
            f"set sampling.max_tokens (now {max_tokens}) to what the candidate's server allows: "
            f"it cut {count(len(lengths), 'answer')} short, from {min(lengths)} tokens on"
        )
    verdicts = faults.get(Reason.UNFINISHED_VERDICT, [])
    if verdicts:
        yield (
            f"raise judge.max_tokens (now {judge_tokens}): "
            f"{count(len(verdicts), 'verdict')} did not end"
        )


def margin_remark(
    name: str, verdicts: Iterable[Verdict], check: JudgeCheck | None
) -> str:
    """Say how far the judge's known errors may hide a change from margins that use verdicts alone.

    Of a true change, verdicts show only the share sensitivity + specificity - 1.
    """
    margins: list[float] = []
    for verdict in verdicts:
        metric = METRICS[verdict.gate.metric]
        rests_on_judge = metric.blurred and Binary in metric.reads
        if verdict.comparison and rests_on_judge:
            for margin in (verdict.gate.max_drop, verdict.gate.max_rise):
                if margin is not None:
                    margins.append(margin)
    share = 1.0
    if check:
        minimums = {part.figure: part.estimate for part in check.checks}
        sensitivity = minimums.get("sensitivity")
        specificity = minimums.get("specificity")
        if sensitivity and specificity:
            share = sensitivity.value + specificity.value - 1
    if not margins or share > 1 - 1e-9:
        return ""
    widest = 100 * max(margins)
    return (
        f"{name}: set a narrower margin, or name another judge: by its check the judge shows "
        f"{max(0.0, share):.0%} of a true change, so one of "
        f"{widest / max(share, 0.01):.3g} points may look like {widest:.3g}"
    )
