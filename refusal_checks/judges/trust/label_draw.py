"""Which of a run's answers people label: a random draw that any later run can check.

Each benchmark's prompts have a fixed random order, given by the draw's seed and the prompts' ids.
A draw takes the first of them with all their answers, since a gate's figure is one of prompts. A
sheet that is filled in part, sorted or cut is therefore still known to be a random sample: its
labelled prompts are the first in that order. A prompt without a label above a labelled one was
skipped, which may depend on its answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from refusal_checks.benchmarks.attacks import as_judged
from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.store import content_key
from refusal_checks.core.text import clean
from refusal_checks.core.verdicts import Invalid, Reason

_UNANSWERED = {
    Reason.ENGINE_ERROR,
    Reason.PROMPT_TOO_LONG,
    Reason.EMPTY_ANSWER,
    Reason.UNFINISHED_ANSWER,
    Reason.UNCLOSED_REASONING,
}
"""Reasons that leave nothing to label; the others are the judge's, and change with it."""

_FORM = re.compile(r"seed (-?\d{1,20}) of run (\S+) \((.*)\), benchmark (.+)")


@dataclass(frozen=True)
class Draw:
    """One draw of a benchmark's prompts.

    Attributes:
        run: id of the run whose answers were drawn.
        candidate: the model that answered, as the user named it; empty if unknown.
    """

    run: str
    candidate: str
    benchmark: str
    seed: int

    def __str__(self) -> str:
        """The draw as a sheet names it, which ``read`` understands."""
        text = f"seed {self.seed} of run {self.run} ({self.candidate}), benchmark {self.benchmark}"
        return clean(text)

    @classmethod
    def read(cls, text: str) -> Draw | None:
        """The draw that a cell names; None if it names none."""
        parts = _FORM.fullmatch(" ".join(text.split()))
        return parts and cls(parts[2], parts[3], parts[4], int(parts[1]))

    def place(self, prompt: str) -> str:
        """A prompt's place in the random order, by its id; compare places as text."""
        return content_key("order of labels", self.seed, self.benchmark, prompt)


@dataclass(frozen=True)
class Answer:
    """One answer of a run.

    Attributes:
        key: see ``answer_key``.
        id: of the prompt.
    """

    key: str
    id: str
    prompt: str
    answer: str


def answer_key(benchmark: str, record: Record) -> str:
    """The key of a row to label: of benchmark, prompt and answer.

    Its first letter keeps spreadsheets from reading it as a number.
    """
    text = record.completion.text if record.completion else ""
    prompt = record.prompt
    return f"k{content_key('answer to label', benchmark, prompt.id, prompt.turns, text)[:16]}"


def is_answered(record: Record) -> bool:
    """True if there is an answer that people can label, whatever the judge made of it."""
    fault = record.judgement.reason if isinstance(record.judgement, Invalid) else None
    return record.completion is not None and fault not in _UNANSWERED


def answers(benchmark: str, records: Iterable[Record]) -> list[Answer]:
    """The answers of a benchmark that people can label, as judges see them."""
    return [
        _answer(benchmark, record, *as_judged(record.prompt, record.completion))
        for record in records
        if record.completion and is_answered(record)
    ]


def _answer(benchmark: str, record: Record, prompt: Prompt, completion: Completion) -> Answer:
    key = answer_key(benchmark, record)
    return Answer(key, prompt.id, prompt.transcript, completion.text)


def sample(answers: Mapping[Draw, Sequence[Answer]], n: int) -> list[tuple[Draw, list[Answer]]]:
    """Draw prompts with about n different answers in all, in the order in which to label them.

    Each benchmark has prompts in proportion to its size; they are a simple random sample of it.
    How many is decided before any is drawn, so that prompts with many different answers are as
    likely to be in it as others.

    Args:
        answers: of each benchmark, by the draw to make of it.

    Raises:
        DataError: n is too small for one prompt of each benchmark.
    """
    grouped = {draw: _by_prompt(group) for draw, group in answers.items()}
    total = sum(map(len, grouped.values()))
    rows = sum(len(group) for by_prompt in grouped.values() for group in by_prompt.values())
    count = min(total, int(n * total / max(1, rows)))
    drawn: list[tuple[str, Draw, list[Answer]]] = []
    for draw, by_prompt in grouped.items():
        share = round(count * len(by_prompt) / max(1, total))
        if not share:
            raise DataError(
                f"--n {n}: ask for more, or for one benchmark with --benchmark: {draw.benchmark} "
                f"would have no prompt, at {rows} different answers to {total} prompts"
            )
        first = sorted(by_prompt, key=draw.place)[:share]
        drawn += [(draw.place(prompt), draw, by_prompt[prompt]) for prompt in first]
    return [(draw, group) for _, draw, group in sorted(drawn, key=lambda each: each[0])]


def _by_prompt(answers: Iterable[Answer]) -> dict[str, list[Answer]]:
    """The different answers, by id of the prompt."""
    grouped: dict[str, dict[str, Answer]] = {}
    for answer in answers:
        grouped.setdefault(answer.id, {})[answer.key] = answer
    return {prompt: list(group.values()) for prompt, group in grouped.items()}
