"""What a run leaves in its folder, written and read: its summary, and its records.

``records/BENCHMARK.jsonl`` has one line a prompt, with all of its answers and their judgements.
Every report is made from these files alone, so it can be made again at any time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter, ValidationError

from refusal_checks.board import write_json, write_text
from refusal_checks.conversation import Prompt
from refusal_checks.errors import DataError
from refusal_checks.records import Completion, Judgement, Record, Vote, storable
from refusal_checks.report.summary import RunSummary


@dataclass(frozen=True)
class _Answer:
    """What a record says besides its prompt."""

    sample: int
    completion: Completion | None
    judgement: Judgement
    votes: tuple[Vote, ...] = ()


@dataclass(frozen=True)
class _Line:
    """A prompt with its answers."""

    prompt: Prompt
    answers: tuple[_Answer, ...]


@cache
def _line() -> TypeAdapter[_Line]:
    return TypeAdapter(_Line)


@cache
def _summary() -> TypeAdapter[RunSummary]:
    return TypeAdapter(RunSummary)


@dataclass(frozen=True)
class RunFolder:
    """A run's folder.

    Attributes:
        path: the folder, ``.refusal-checks/runs/ID``.
    """

    path: Path

    @classmethod
    def of(cls, path: Path) -> Self:
        """The folder of a run that is named by it or by its ``summary.json``."""
        return cls(path.parent if path.name == "summary.json" else path)

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """Names of the benchmarks that were completed, sorted."""
        return tuple(sorted(path.stem for path in self._folder.glob("*.jsonl")))

    def write_summary(self, summary: RunSummary) -> None:
        """Write ``summary.json``; readers see it whole or not at all."""
        write_json(self.path / "summary.json", _summary().dump_python(summary, mode="json"))

    def summary(self) -> RunSummary:
        """The run's summary.

        Raises:
            DataError: there is none, or it is no summary of this version.
        """
        path = self.path / "summary.json"
        try:
            return _summary().validate_python(json.loads(path.read_bytes()))
        except OSError as fault:
            raise DataError(f"{path}: cannot be read: {fault.strerror}") from None
        except ValueError as fault:
            raise DataError(f"{path}: no summary of a run of this version: {_why(fault)}") from None

    def write_records(self, benchmark: str, records: Iterable[Record]) -> None:
        """Write a benchmark's records; those of one prompt follow each other."""
        grouped = groupby(records, lambda record: record.prompt)
        lines = (_dump(_as_line(prompt, list(found))) for prompt, found in grouped)
        write_text(self._folder / f"{benchmark}.jsonl", "".join(lines))

    def records(self, benchmark: str) -> Iterator[Record]:
        """A benchmark's records, in the order in which they were written.

        Raises:
            DataError: the run did not complete it, or the file is damaged.
        """
        path = self._folder / f"{benchmark}.jsonl"
        try:
            with path.open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    yield from _records(_read(line, f"{path}: not a run's records: line {number}"))
        except OSError as fault:
            raise DataError(f"{path}: cannot be read: {fault.strerror}") from None

    @property
    def _folder(self) -> Path:
        return self.path / "records"


def _read(line: bytes, where: str) -> _Line:
    try:
        return _line().validate_json(line)
    except ValidationError as fault:
        raise DataError(f"{where}: {_why(fault)}") from None


def _why(fault: ValueError) -> str:
    """What is wrong with a file: the first of many things, without what stands there."""
    if not isinstance(fault, ValidationError):
        return str(fault)
    first = fault.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _as_line(prompt: Prompt, records: Sequence[Record]) -> _Line:
    return _Line(
        prompt,
        tuple(
            _Answer(record.sample, record.completion, record.judgement, record.votes)
            for record in records
        ),
    )


def _dump(line: _Line) -> str:
    """One line of JSON; servers' error texts may hold what no encoding has."""
    found = _line().dump_python(line, mode="json")
    return storable(json.dumps(found, ensure_ascii=False)) + "\n"


def _records(line: _Line) -> Iterator[Record]:
    for found in line.answers:
        yield Record(line.prompt, found.sample, found.completion, found.judgement, found.votes)
