"""Human labels for a run: a random sample of its answers to label, and the labels people gave.

Each row has a key of its benchmark, prompt and answer, so a label cannot reach another answer.
Whole prompts are drawn with all their answers, since a gate's figure is one of prompts; equal
answers to a prompt are labelled once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from refusal_checks.core.csv_jsonl import read_csv
from refusal_checks.core.errors import CalibrationError, DataError, require_known
from refusal_checks.core.keys import content_key
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Binary as Verdict
from refusal_checks.core.verdicts import Invalid, Label
from refusal_checks.judges.trust import spreadsheet
from refusal_checks.judges.trust.confusion import REFUSAL
from refusal_checks.judges.trust.prediction_powered import LEAST
from refusal_checks.judges.trust.scale import Partial, classes

HEADER = ("key", "prompt", "answer", "label")


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
    """The key of a row to label: of benchmark, prompt and answer."""
    text = record.completion.text if record.completion else ""
    return content_key("answer to label", benchmark, record.prompt.turns, text)[:16]


def answers(benchmark: str, records: Iterable[Record]) -> list[Answer]:
    """The answers of a benchmark that have a valid verdict; the others are in no figure."""
    return [
        Answer(
            answer_key(benchmark, record),
            record.prompt.id,
            record.prompt.transcript,
            record.completion.text,
        )
        for record in records
        if record.completion and not isinstance(record.judgement, Invalid)
    ]


def sample(answers: Mapping[str, Sequence[Answer]], n: int, seed: int) -> list[Answer]:
    """Draw a random sample of the answers, in random order.

    It has the prompts of about n answers, each benchmark in proportion to its size; a benchmark's
    prompts are a simple random sample.

    Args:
        n: most answers to draw.

    Raises:
        DataError: n is too small for one prompt of each benchmark.
    """
    grouped = {name: _by_prompt(group) for name, group in answers.items()}
    deepest = max(len(group) for by_prompt in grouped.values() for group in by_prompt.values())
    total = sum(map(len, grouped.values()))
    count = min(total, n // deepest)
    random = Random(f"labels {seed}")
    drawn: list[Answer] = []
    for name, by_prompt in grouped.items():
        share = round(count * len(by_prompt) / total)
        if not share:
            raise DataError(
                f"--n {n}: ask for more, or for one benchmark with --benchmark: {name} would have "
                f"no prompt, at up to {deepest} answers to each of {total} prompts"
            )
        ids = random.sample(sorted(by_prompt), min(share, len(by_prompt)))
        drawn += [answer for prompt in ids for answer in by_prompt[prompt]]
    random.shuffle(drawn)
    return drawn


def _by_prompt(answers: Iterable[Answer]) -> dict[str, list[Answer]]:
    """The distinct answers, by id of the prompt."""
    grouped: dict[str, dict[str, Answer]] = {}
    for answer in answers:
        grouped.setdefault(answer.id, {})[answer.key] = answer
    return {prompt: list(group.values()) for prompt, group in grouped.items()}


def to_csv(answers: Iterable[Answer]) -> bytes:
    """The rows to label, without labels and without the judge's verdicts."""
    rows = ((answer.key, answer.prompt, answer.answer, "") for answer in answers)
    return spreadsheet.table(HEADER, rows)


@dataclass(frozen=True)
class HumanLabels:
    """The labels, by key, of a file that ``to_csv`` wrote and people filled in."""

    path: Path
    labels: Mapping[str, Label]

    def relabelled(self, benchmark: str, records: Iterable[Record]) -> dict[str, list[Record]]:
        """The records of fully labelled prompts, by prompt id, with the human verdicts.

        A prompt is fully labelled if all of its answers with a valid verdict are.
        """
        relabelled: dict[str, list[Record]] = {}
        partly: set[str] = set()
        for record in records:
            if record.completion is None or isinstance(record.judgement, Invalid):
                continue
            label = self.labels.get(answer_key(benchmark, record))
            if label is None:
                partly.add(record.prompt.id)
                continue
            human = Record(record.prompt, record.sample, record.completion, Verdict(label))
            relabelled.setdefault(record.prompt.id, []).append(human)
        return {prompt: group for prompt, group in relabelled.items() if prompt not in partly}

    def coverage(self, benchmark: str, records: Iterable[Record]) -> str:
        """How many prompts of a benchmark are labelled, in words."""
        count = len(self.relabelled(benchmark, records))
        few = "" if count >= LEAST else f", too few to use (at least {LEAST})"
        return f"{benchmark}: {count} prompts have human labels{few}"


def read_labels(path: Path, partial: Partial = "refusal") -> HumanLabels:
    """Read human labels of a run's answers.

    Raises:
        CalibrationError: a label is unknown, one answer has two labels, or there are no labels.
        DataError: the file is not such a table.
    """
    known = classes(partial)
    labels: dict[str, Label] = {}
    for number, row in enumerate(read_csv(path, ("key", "label")), 1):
        text = row["label"].strip().lower()
        if not text:
            continue
        require_known(text, known, f"{path}: row {number}", "label", CalibrationError)
        label = Label.REFUSAL if known[text] == REFUSAL else Label.COMPLIANCE
        if labels.setdefault(row["key"], label) is not label:
            raise CalibrationError(f"{path}: row {number}: {row['key']} has two labels")
    if not labels:
        raise CalibrationError(f"{path}: no row has a label")
    return HumanLabels(path, labels)
