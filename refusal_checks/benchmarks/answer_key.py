"""Answer keys of multiple-choice benchmarks: a CSV file, the package's own or a user's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.core.csv_jsonl import read_csv
from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.settings import MultipleChoice


@dataclass(frozen=True)
class Entry:
    """The right option of one question.

    Attributes:
        answer: the option's letter.
        agreed: whether those who made the key agreed on it.
    """

    answer: str
    agreed: bool


@dataclass(frozen=True)
class Key:
    """The right options, by question id."""

    path: Path
    entries: Mapping[str, Entry]

    def mark(self, prompts: Iterable[Prompt], agreed_only: bool) -> tuple[Prompt, ...]:
        """The prompts with the right option as their reference.

        A question that the key lacks, or that is in doubt where only agreed ones are wanted, has
        no reference: it is asked, and no accuracy counts it.

        Raises:
            DataError: the key has ids that no prompt has, or letters that are no option.
        """
        found = tuple(prompts)
        self._require_known({prompt.id for prompt in found})
        return tuple(
            replace(prompt, reference=self._answer(prompt, agreed_only)) for prompt in found
        )

    def _require_known(self, ids: set[str]) -> None:
        unknown = [id for id in self.entries if id not in ids]
        if unknown:
            raise DataError(
                f"{self.path}: no question has the id {_listed(unknown)}; "
                "the ids are those of the benchmark's own file"
            )

    def _answer(self, prompt: Prompt, agreed_only: bool) -> str | None:
        entry = self.entries.get(prompt.id)
        if entry is None:
            return None
        if entry.answer not in prompt.options:
            options = ", ".join(prompt.options)
            raise DataError(
                f"{self.path}: id {prompt.id}: answer {entry.answer!r} is none of its options, "
                f"which are {options}"
            )
        return entry.answer if entry.agreed or not agreed_only else None


def mark(
    prompts: Iterable[Prompt], benchmark: Benchmark, settings: MultipleChoice
) -> tuple[Prompt, ...]:
    """A benchmark's prompts with their right options, where it is one of multiple choice.

    Raises:
        DataError: see ``read`` and ``Key.mark``.
    """
    if benchmark.key is None:
        return tuple(prompts)
    return read(settings.key or benchmark.key).mark(prompts, settings.items == "agreed")


def read(path: Path) -> Key:
    """Read a key: columns ``id``, ``answer`` and, where some are in doubt, ``agreed`` (1 or 0).

    Raises:
        DataError: the file is missing, empty or malformed, or holds an id twice.
    """
    entries: dict[str, Entry] = {}
    for number, row in enumerate(read_csv(path, ("id", "answer")), 1):
        id, answer, agreed = (row.get(name, "1").strip() for name in ("id", "answer", "agreed"))
        if agreed not in ("0", "1"):
            raise DataError(f"{path}: row {number}: agreed = {agreed!r}: write 1 or 0")
        if id in entries:
            raise DataError(f"{path}: row {number}: the id {id} occurs twice")
        entries[id] = Entry(answer.upper(), agreed == "1")
    return Key(path, entries)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
