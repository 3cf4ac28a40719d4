"""Answer keys of multiple-choice benchmarks: a CSV file, the package's own or a user's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.core.csv_jsonl import read_csv
from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.settings import MultipleChoice


@dataclass(frozen=True)
class KeyEntry:
    """The right option of one question.

    Attributes:
        answer: the option's letter.
        agreed: the makers of the key agreed on it.
    """

    answer: str
    agreed: bool


@dataclass(frozen=True)
class AnswerKey:
    """The right options, by question id."""

    path: Path
    entries: Mapping[str, KeyEntry]

    def mark(self, prompts: Iterable[Prompt], agreed_only: bool) -> tuple[Prompt, ...]:
        """The prompts with the right option as their reference.

        Questions that the key lacks have no reference, nor have disputed ones if only agreed ones
        are wanted: they are asked, and do not count for accuracy.

        Raises:
            DataError: the key has ids that no prompt has, or letters that are not options.
        """
        questions = tuple(prompts)
        ids = {prompt.id for prompt in questions}
        if unknown := [name for name in self.entries if name not in ids]:
            more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
            raise DataError(
                f"{self.path}: no question has the id {', '.join(unknown[:5])}{more}; "
                "use the ids of the benchmark's own file"
            )
        return tuple(
            replace(prompt, reference=self._answer(prompt, agreed_only)) for prompt in questions
        )

    def _answer(self, prompt: Prompt, agreed_only: bool) -> str | None:
        entry = self.entries.get(prompt.id)
        if entry is None:
            return None
        if entry.answer not in prompt.options:
            raise DataError(
                f"{self.path}: id {prompt.id}: answer {entry.answer!r} is none of its options "
                + ", ".join(prompt.options)
            )
        return entry.answer if entry.agreed or not agreed_only else None


def mark(
    prompts: Iterable[Prompt], benchmark: Benchmark, settings: MultipleChoice
) -> tuple[Prompt, ...]:
    """A benchmark's prompts, with their right options if it is one of multiple choice.

    Raises:
        DataError: see ``read`` and ``AnswerKey.mark``.
    """
    if benchmark.key is None:
        return tuple(prompts)
    return read(settings.key or benchmark.key).mark(prompts, settings.items == "agreed")


def read(path: Path) -> AnswerKey:
    """Read a key: columns ``id``, ``answer`` and, if some are disputed, ``agreed`` (1 or 0).

    Raises:
        DataError: the file is missing, empty or malformed, or holds an id twice.
    """
    entries: dict[str, KeyEntry] = {}
    for number, row in enumerate(read_csv(path, ("id", "answer")), 1):
        name, answer, agreed = (row.get(key, "1").strip() for key in ("id", "answer", "agreed"))
        if agreed not in ("0", "1"):
            raise DataError(f"{path}: row {number}: agreed = {agreed!r}: write 1 or 0")
        if name in entries:
            raise DataError(f"{path}: row {number}: the id {name} occurs twice")
        entries[name] = KeyEntry(answer.upper(), agreed == "1")
    return AnswerKey(path, entries)
