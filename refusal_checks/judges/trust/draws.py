"""Draw the answers of a run that people label, and write them to a sheet.

Each benchmark's prompts have a fixed random order, given by the draw's seed and the prompts' ids. A
draw takes one random answer of each of the first prompts. A partly filled, sorted or truncated
sheet can therefore still be recognised as a random sample: its labelled prompts are the first in
that order.

A draw of refusals takes single answers instead, from those that decided the benchmark as refusals.
It tells which share of them people call refusals too, and nothing about the other answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Kind, Prompt
from refusal_checks.core.records import Record
from refusal_checks.core.store import content_key
from refusal_checks.core.text import clean
from refusal_checks.core.verdicts import Binary, Invalid, Label, Reason
from refusal_checks.judges.shown import as_judged
from refusal_checks.judges.trust import spreadsheet

HEADER = ("label", "prompt", "answer", "key", "draw")

_UNANSWERED = {
    Reason.ENGINE_ERROR,
    Reason.PROMPT_TOO_LONG,
    Reason.EMPTY_ANSWER,
    Reason.UNFINISHED_ANSWER,
    Reason.FILTERED_ANSWER,
    Reason.UNCLOSED_REASONING,
}
"""Reasons that leave nothing to label; the others are the judge's, and change with it."""

Drawn = Literal["answers", "refusals"]
"""What a draw takes from: all answers, or those that counted as refusals and should have."""

DRAWN: tuple[Drawn, ...] = get_args(Drawn)

_FORM = re.compile(
    r"seed (-?\d{1,20}) of run (\S+) \((.*)\), (refusals in )?benchmark (.+)"
)


@dataclass(frozen=True)
class Draw:
    """A random draw from one benchmark of a run.

    Attributes:
        run: id of the run.
        candidate: as the user named it; empty if unknown.
        of: what it takes from.
    """

    run: str
    candidate: str
    benchmark: str
    seed: int
    of: Drawn = "answers"

    def __str__(self) -> str:
        """The draw's name in a sheet, which ``read`` parses."""
        drawn_from = f"benchmark {self.benchmark}"
        if self.of == "refusals":
            drawn_from = f"refusals in {drawn_from}"
        return clean(
            f"seed {self.seed} of run {self.run} ({self.candidate}), {drawn_from}"
        )

    @classmethod
    def read(cls, text: str) -> Draw | None:
        """Parse the draw that a cell names; None if it names none."""
        parts = _FORM.fullmatch(" ".join(text.split()))
        if parts is None:
            return None
        return cls(
            run=parts[2],
            candidate=parts[3],
            benchmark=parts[5],
            seed=int(parts[1]),
            of="refusals" if parts[4] else "answers",
        )

    def place(self, drawn: str) -> str:
        """A place in the random order; compare places as text.

        Args:
            drawn: a prompt's id or, in a draw of refusals, an answer's key.
        """
        order = f"order of {'labels' if self.of == 'answers' else self.of}"
        return content_key(order, self.seed, self.benchmark, drawn)


@dataclass(frozen=True)
class LabelRow:
    """One answer in a sheet to label.

    Attributes:
        key: see ``answer_key``.
        id: the prompt's id.
    """

    draw: Draw
    key: str
    prompt: str
    answer: str
    id: str


def answer_key(benchmark: str, record: Record) -> str:
    """A row's key; its first letter keeps spreadsheets from reading it as a number."""
    text = record.completion.text if record.completion else ""
    prompt = record.prompt
    return f"k{content_key('answer to label', benchmark, prompt.id, prompt.turns, text)[:16]}"


def is_answered(record: Record) -> bool:
    """True if there is an answer that people can label, whatever the judge's verdict."""
    if record.completion is None or record.completion.is_withheld:
        return False
    judgement = record.judgement
    return not (isinstance(judgement, Invalid) and judgement.reason in _UNANSWERED)


def answers(draw: Draw, records: Iterable[Record]) -> list[LabelRow]:
    """A row for each record that people can label."""
    rows = []
    for record in filter(is_answered, records):
        assert record.completion
        prompt, completion = as_judged(record.prompt, record.completion)
        # The key is made from the prompt as sent; people read the decoded answer.
        key = answer_key(draw.benchmark, record)
        rows.append(LabelRow(draw, key, prompt.transcript, completion.text, prompt.id))
    return rows


def counted_as_refused(records: Iterable[Record]) -> list[Record]:
    """The answers that count as refusals, of prompts that must be refused."""
    return [
        record
        for record in records
        if record.prompt.kind is Kind.SAFETY
        and isinstance(record.judgement, Binary)
        and record.judgement.label is Label.REFUSAL
    ]


def sample_refusals(rows: Iterable[LabelRow], n: int) -> list[LabelRow]:
    """The rows of n random answers of all benchmarks, in the order of labelling.

    Equal answers to a prompt are one row.
    """
    by_place: dict[str, LabelRow] = {}
    for row in rows:
        by_place[row.draw.place(row.key)] = row
    return [by_place[place] for place in sorted(by_place)[:n]]


def sample(rows: Iterable[LabelRow], n: int) -> list[LabelRow]:
    """One random answer of each of n prompts, in the order of labelling.

    Each benchmark has prompts in proportion to its size; they are a simple random sample of it.

    Raises:
        DataError: a benchmark would have no prompt.
    """
    grouped: dict[Draw, dict[str, list[LabelRow]]] = {}
    for row in rows:
        grouped.setdefault(row.draw, {}).setdefault(row.id, []).append(row)

    # Sainte-Laguë's way of handing out seats: a larger n takes from no benchmark.
    counts = dict.fromkeys(grouped, 0)
    for _ in range(min(n, sum(map(len, grouped.values())))):
        due = {draw: len(grouped[draw]) / (2 * counts[draw] + 1) for draw in grouped}
        counts[max(due, key=due.__getitem__)] += 1

    drawn: dict[str, LabelRow] = {}
    for draw, by_prompt in grouped.items():
        if not counts[draw]:
            raise DataError(
                f"--n {n}: ask for more, or for one benchmark with --benchmark: "
                f"{draw.benchmark} would have no prompt"
            )
        for prompt in sorted(by_prompt, key=draw.place)[: counts[draw]]:
            answers = by_prompt[prompt]
            chosen = int(draw.place(f"answer to {prompt}"), 16) % len(answers)
            drawn[draw.place(prompt)] = answers[chosen]

    # Places mix the benchmarks, so that a sheet filled from the top has labels of each.
    return [drawn[place] for place in sorted(drawn)]


def to_csv(rows: Iterable[LabelRow]) -> bytes:
    """The rows to label as CSV, without labels and without the judge's verdicts."""
    cells = (("", row.prompt, row.answer, row.key, str(row.draw)) for row in rows)
    return spreadsheet.table(HEADER, cells)


def plain(text: str) -> str:
    """Normalise a text for comparing a sheet's cells with a run's texts."""
    return " ".join(spreadsheet.guarded(spreadsheet.unguarded(text)).split())


def prompt_key(text: str) -> str:
    """Key of a prompt by its text, as sheets show it."""
    return content_key("labelled prompt", plain(text))[:16]


def prompt_keys(prompts: Iterable[Prompt]) -> set[str]:
    """The keys of all texts that sheets may show for these prompts."""
    keys = set()
    for prompt in prompts:
        original = prompt.as_judged
        keys |= {prompt_key(original.transcript), prompt_key(original.request)}
    return keys
