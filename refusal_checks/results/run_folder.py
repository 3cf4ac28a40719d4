"""What a run leaves in its folder, written and read: its summary, and its records.

``records/BENCHMARK.jsonl`` has one line a prompt, with all of its answers and their judgements.
Every report is made from these files alone, so it can be made again at any time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, Self

from pydantic import TypeAdapter, ValidationError

from refusal_checks.core.errors import DataError, require_known
from refusal_checks.core.files import write_json, write_text
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record, Vote
from refusal_checks.core.text import storable
from refusal_checks.core.verdicts import Judgement
from refusal_checks.results.summary import BenchmarkSummary, RunSummary


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


SUMMARY = "summary.json"


@dataclass(frozen=True)
class RunFolder:
    """A run's folder.

    Attributes:
        path: the folder, ``.refusal-checks/runs/ID``.
        summary_name: the file of its summary, which may have been renamed.
    """

    path: Path
    summary_name: str = SUMMARY

    @classmethod
    def of(cls, path: Path) -> Self:
        """The folder of a run, given by its path or by its summary's."""
        is_summary = path.name == SUMMARY or path.is_file()
        return cls(path.parent, path.name) if is_summary else cls(path)

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """Names of the benchmarks that were completed, sorted."""
        return tuple(sorted(path.stem for path in self._records_folder.glob("*.jsonl")))

    def write_summary(self, summary: RunSummary) -> None:
        """Write the summary; readers see all of it or none."""
        write_json(self.summary_file, _summary().dump_python(summary, mode="json"))

    def summary(self) -> RunSummary:
        """The run's summary; those of older versions too.

        Raises:
            DataError: there is none, or it is not a summary of a run.
        """
        path = self.summary_file
        try:
            found = json.loads(path.read_bytes())
            missing = {"manifest", "benchmarks"} - set(found if isinstance(found, dict) else ())
            if missing:
                raise ValueError(f"it has no {' and no '.join(sorted(missing))}")
            return _summary().validate_python(found)
        except OSError as fault:
            raise DataError(
                f"{path}: cannot be read: {fault.strerror}; name the folder of a run that has "
                "ended, which the last line of its output shows"
            ) from None
        except ValueError as fault:
            raise DataError(
                f"{path}: not a summary of a run: {_why(fault)}. Name the folder of another run, "
                "or repeat this one"
            ) from None

    @property
    def summary_file(self) -> Path:
        """The file of its summary."""
        return self.path / self.summary_name

    def write_records(self, benchmark: str, records: Iterable[Record]) -> None:
        """Write a benchmark's records; those of one prompt follow each other."""
        grouped = groupby(records, lambda record: record.prompt)
        lines = (_dump(_as_line(prompt, list(found))) for prompt, found in grouped)
        write_text(self._records_folder / f"{benchmark}.jsonl", "".join(lines))

    def records(self, benchmark: str) -> Iterator[Record]:
        """A benchmark's records, in the order in which they were written.

        Raises:
            DataError: the run did not complete it, or the file is damaged.
        """
        path = self._records_folder / f"{benchmark}.jsonl"
        try:
            with path.open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    yield from _records(_read(line, f"{path}: not a run's records: line {number}"))
        except OSError as fault:
            raise DataError(f"{path}: cannot be read: {fault.strerror}") from None

    @property
    def _records_folder(self) -> Path:
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


class PastRun(NamedTuple):
    """A run that has ended: its folder and its summary."""

    folder: RunFolder
    summary: RunSummary

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a run, given by its folder or its summary; see ``RunFolder.summary``."""
        folder = RunFolder.of(path)
        return cls(folder, folder.summary())

    @property
    def candidate(self) -> str:
        """The candidate as it was named."""
        return self.summary.manifest.candidate or self.folder.path.name

    @property
    def judge(self) -> str:
        """The judge as it was named."""
        return self.summary.manifest.judge or self.folder.path.name

    def benchmark(self, name: str) -> BenchmarkSummary:
        """The figures of one benchmark.

        Raises:
            DataError: the run did not evaluate it.
        """
        known = self.summary.benchmarks
        require_known(name, known, str(self.folder.summary_file), "benchmark", DataError)
        return known[name]


ROOT = Path(".refusal-checks") / "runs"
"""Where runs are, from a project's own folder."""

LAST = "last"

_NAME = re.compile(r"(\d{8}-\d{6})-\d+(-\d+)?")


def all_runs(root: Path) -> list[RunFolder]:
    """The runs of a project, the oldest first; none where there is no such folder."""
    paths = ((_order(path.name), path) for path in root.glob("*"))
    found = [(order, path) for order, path in paths if order and path.is_dir()]
    return [RunFolder(path) for _, path in sorted(found)]


def find(name: str, root: Path) -> RunFolder:
    """One run.

    Args:
        name: its folder, its ``summary.json``, its id (the folder's name), or ``last``.

    Raises:
        DataError: there is no such run.
    """
    path = Path(name)
    if path.is_dir() or path.is_file():
        return RunFolder.of(path)
    runs = {run.path.name: run for run in all_runs(root)}
    if not runs:
        raise DataError(
            f"{root}: no runs there; name a run's folder, or where runs are: --runs DIR"
        )
    if name == LAST:
        return list(runs.values())[-1]
    require_known(name, runs, str(root), "run", DataError)
    return runs[name]


def started(run: RunFolder) -> datetime:
    """When a run started, in local time, which its folder's name tells."""
    order = _order(run.path.name)
    assert order, run.path
    return order[0]


def _order(name: str) -> tuple[datetime, int] | None:
    """What ids sort by: the time, then the number among the candidates of one session."""
    found = _NAME.fullmatch(name)
    if not found:
        return None
    try:
        time = datetime.strptime(found[1], "%Y%m%d-%H%M%S")
    except ValueError:  # digits that are no date
        return None
    return time, int((found[2] or "-0")[1:])
