"""A run's folder with summary and records, and how to find a project's runs.

``records/BENCHMARK.jsonl`` has one line per prompt with all its answers and judgements. Reports
need only these files, so they can be made again at any time. The summary lists the other files'
digests and ends with its own: a run is read exactly as it was written, or not at all.

Until a run ends, ``unfinished.json`` takes the summary's place with what is known and decided so
far. ``unfinished/BENCHMARK.jsonl`` has the records of an incomplete benchmark in the order in which
they were judged. These files stay if the run is stopped.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from refusal_checks.core import suggestions
from refusal_checks.core.errors import (
    BaselineError,
    DataError,
    UserError,
    require_known,
)
from refusal_checks.core.judgements import Judgement
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record, Vote
from refusal_checks.core.text import replace_surrogates
from refusal_checks.gates import score_files
from refusal_checks.gates.score_files import Scores
from refusal_checks.io.files import (
    FILE_NAME,
    FileDigest,
    append_seal,
    is_file_name,
    make_private_folder,
    read_seal,
    sha256,
    write_lines,
)
from refusal_checks.io.strict_json import parse_json
from refusal_checks.results import project
from refusal_checks.results.benchmark_summary import BenchmarkSummary, summarise
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.summary import RunSummary, require_metrics

if TYPE_CHECKING:
    from pandas import DataFrame


ROOT = project.ROOT / "runs"  # where the runs of a project are, from its own folder

SUMMARY = "summary.json"
UNFINISHED = "unfinished"
RECORDS = "records"
FORMAT = 4  # of the summary and the records; raised when their meaning changes
LAST = "last"

_NAME = re.compile(r"(\d{8}-\d{6})Z-\d+")
"""A run's id: start in UTC, and process."""


@dataclass(frozen=True)
class _Answer:
    sample: int
    completion: Completion | None
    judgement: Judgement
    votes: tuple[Vote, ...] = ()


@dataclass(frozen=True)
class _Line:
    prompt: Prompt
    answers: tuple[_Answer, ...]


# Made when they are needed: each takes a while.
_line_form = cache(lambda: TypeAdapter(_Line))
_summary_form = cache(lambda: TypeAdapter(RunSummary))


def dump_summary(summary: RunSummary, words: Mapping[str, Any]) -> dict[str, Any]:
    """Serialise a summary for ``summary.json``, with the sentences that reports show."""
    content: dict[str, Any] = {"format": FORMAT}
    content |= _summary_form().dump_python(summary, mode="json")
    return {**content, **words}


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run, ``.refusal-checks/runs/ID``."""

    path: Path

    @classmethod
    def of(cls, path: Path) -> Self:
        """The folder of a run, given its own path or its summary's."""
        return cls(path.parent if path.name == SUMMARY else path)

    @property
    def summary_file(self) -> Path:
        return self.path / SUMMARY

    @property
    def started(self) -> datetime:
        """When the run started, as its name says."""
        named = _order(self.path.name)
        assert named, self.path
        return named

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """Benchmarks with records; in an unfinished run, they may be incomplete."""
        return tuple(sorted({*self.complete, *_stems(self.path / UNFINISHED)}))

    @property
    def complete(self) -> tuple[str, ...]:
        """Benchmarks that have all their records."""
        return tuple(sorted(_stems(self.path / RECORDS)))

    @property
    def is_unfinished(self) -> bool:
        """True if a run began here and is not complete: still running, stopped or killed."""
        is_partial = (self.path / UNFINISHED).exists()
        return self.has_begun and (is_partial or not self.has_ended)

    @property
    def has_ended(self) -> bool:
        """True once the summary is written, also for a run that was stopped."""
        return self.summary_file.exists()

    def frame(self) -> DataFrame:
        from pandas import DataFrame  # comes with datasets; takes a while to import

        from refusal_checks.results.answer_rows import COLUMNS, rows

        return DataFrame(rows(self), columns=list(COLUMNS))

    @property
    def has_begun(self) -> bool:
        """True if a run has started in this folder; another process may delete it later."""
        return self._written.exists()

    @property
    def _written(self) -> Path:
        """The summary's file, or the file that takes its place until the run ends."""
        is_stand_in = self._stand_in.exists() and not self.has_ended
        return self._stand_in if is_stand_in else self.summary_file

    @property
    def _stand_in(self) -> Path:
        return self.path / f"{UNFINISHED}.json"

    def begin(self, summary: RunSummary) -> None:
        """Make the folder and write what is known before the run starts.

        Raises:
            UserError: the folder cannot be written, or another run has it.
        """
        try:
            make_private_folder(self.path)
            # Of two machines that share a folder of runs, one alone makes this file.
            self._stand_in.open("x").close()
            self.write_unfinished(summary)
        except FileExistsError:
            raise UserError(
                f"{self.path}: run the command again: this folder belongs to another run"
            ) from None
        except OSError as fault:
            raise UserError(
                f"{self.path}: cannot be written: {fault.strerror}"
            ) from None

    def write_summary(
        self, summary: RunSummary, words: Mapping[str, Any] | None = None
    ) -> None:
        """Write the summary of a run that has ended, and delete the unfinished one.

        Records of incomplete benchmarks stay: the summary names them, see ``partial_benchmarks``.
        """
        # First the summary, then the rest goes: a kill between the two leaves both, and the summary
        # is read.
        _write_summary(self.summary_file, summary, words or {})
        with suppress(OSError):
            self._stand_in.unlink(missing_ok=True)
        if not summary.unfinished:
            shutil.rmtree(self.path / UNFINISHED, ignore_errors=True)

    def partial_benchmarks(
        self, manifest: Manifest
    ) -> tuple[dict[str, BenchmarkSummary], dict[str, FileDigest]]:
        """Incomplete benchmarks of a stopped run: figures so far, and digests of their records.

        Raises:
            OSError: a file of records cannot be read.
        """
        names = _stems(self.path / UNFINISHED) - set(self.complete)
        benchmarks, files = self._partial_figures(manifest, names), {}
        for name in names:
            path = self.journal(name)
            if name in benchmarks:  # else nothing of it was judged
                written = FileDigest(sha256(path), path.stat().st_size)
                files[f"{UNFINISHED}/{path.name}"] = written
            else:
                path.unlink(missing_ok=True)
        return benchmarks, files

    def _partial_figures(
        self, manifest: Manifest, names: Iterable[str]
    ) -> dict[str, BenchmarkSummary]:
        """Figures of benchmarks that may be incomplete, without those that have no records."""
        found = {}
        for name in sorted(names):
            records = list(self.records(name))
            if records:
                kind = records[0].prompt.kind or ""
                planned = manifest.data[name].prompts if name in manifest.data else 0
                level = manifest.spec.settings.confidence
                found[name] = summarise(records, level, planned=planned, kind=kind)
        return found

    def write_unfinished(self, summary: RunSummary) -> None:
        """Write what is known so far, for anyone who reads the run before it ends."""
        so_far = replace(summary, failure=_UNFINISHED, unfinished=True)
        _write_summary(self._stand_in, so_far, {})

    def summary(self) -> RunSummary:
        """Read the summary; an unfinished run's has what was done so far.

        Raises:
            DataError: no run has begun here, or its summary has changed or is of another version.
        """
        summary = self.stored_summary()
        if self.has_begun and not self.has_ended:
            left = set(self.benchmarks) - summary.benchmarks.keys()
            summary.benchmarks |= self._partial_figures(summary.manifest, left)
        return summary

    def stored_summary(self) -> RunSummary:
        """Read the summary as last written; see ``summary``."""
        path = self._written
        try:
            summary = _read_summary(path.read_bytes())
        except OSError as fault:
            raise DataError(
                f"{path}: cannot be read: {fault.strerror}; name the folder of a run, which the "
                "last line of its output shows"
            ) from None
        except (ValueError, RecursionError) as fault:
            raise DataError(
                f"{path}: not a summary of a run: {_why(fault)}. Restore it, name the folder of "
                "another run, or repeat this one"
            ) from None
        for benchmark in summary.benchmarks:
            self._records_file(benchmark)
        for name in summary.files:
            # A summary that somebody else wrote must not have other files opened.
            if not all(map(is_file_name, name.split("/"))):
                raise DataError(
                    f"{path}: {name[:100]!r} is not a file of a run; name a run of your own"
                )
        return summary

    def require_whole(self) -> None:
        """Check that the run is as it was written.

        Raises:
            DataError: a file is missing, cut or changed; the message names the first.
        """
        for path, why in self.damage():
            raise DataError(f"{path}: restore it from a copy, or repeat the run: {why}")

    def damage(self, *, by_size: bool = False) -> Iterator[tuple[Path, str]]:
        """Yield the run's missing or changed files, each with what is wrong.

        A summary that was copied alone, without any other file, is fine.

        Args:
            by_size: only compare sizes, without reading the files.

        Raises:
            DataError: the summary cannot be read.
        """
        written = self.stored_summary().files
        # Also files that the summary does not name: commands would read those, too.
        there = {path for folder in _CHECKED for path in self.path.glob(folder)}
        if not there:
            return
        for name, digest in written.items():
            path = self.path / name
            try:
                if path.exists() and not path.is_file():
                    yield path, "it is a pipe, a device or a folder"
                    continue
                size = path.stat().st_size
                if size != digest.size:
                    yield (
                        path,
                        f"it has {size:,} bytes, but the run wrote {digest.size:,}",
                    )
                elif not by_size and sha256(path) != digest.sha256:
                    yield path, "it has changed since the run wrote it"
            except FileNotFoundError:
                yield path, "it is missing"
            except OSError as fault:
                yield path, f"it cannot be read: {fault.strerror}"
        if self.has_ended:  # a stand-in may be older than the run's files
            for path in sorted(there - {self.path / name for name in written}):
                yield path, "the run did not write it"

    def write_records(self, benchmark: str, records: Iterable[Record]) -> FileDigest:
        return write_lines(self._records_file(benchmark), record_lines(records))

    def records(self, benchmark: str) -> Iterator[Record]:
        """Yield a benchmark's records; in an unfinished run, those written so far.

        Raises:
            DataError: there are none, or their file is damaged.
        """
        path = self._records_file(benchmark)
        is_journal = not path.exists() and self.journal(benchmark).exists()
        if is_journal:
            path = self.journal(benchmark)
        try:
            with path.open("rb") as file:
                for number, content in enumerate(file, 1):
                    if is_journal and not content.endswith(b"\n"):
                        return  # the run was killed while it wrote this line
                    try:
                        line = _line_form().validate_json(content)
                    except ValidationError as fault:
                        where = f"{path}: not a run's records: line {number}"
                        raise DataError(f"{where}: {_why(fault)}") from None
                    for answer in line.answers:
                        yield Record(
                            line.prompt,
                            answer.sample,
                            answer.completion,
                            answer.judgement,
                            answer.votes,
                        )
        except OSError as fault:
            raise DataError(f"{path}: cannot be read: {fault.strerror}") from None

    def _records_file(self, benchmark: str) -> Path:
        if not is_file_name(benchmark):
            raise DataError(
                f"{self.summary_file}: name a run of your own: {benchmark[:100]!r} is not a "
                f"benchmark's name ({FILE_NAME})"
            )
        return self.path / RECORDS / f"{benchmark}.jsonl"

    def journal(self, benchmark: str) -> Path:
        """The file of a benchmark's records until it is complete."""
        return self.path / UNFINISHED / f"{benchmark}.jsonl"


def _stems(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.jsonl")}


_CHECKED = (
    *("records/*.jsonl", "scores/*.json"),
    f"{UNFINISHED}/*.jsonl",
)
"""Files that commands read if present, so that an extra one is damage, too."""

_UNFINISHED = (
    "This run is unfinished: it is still running, or was killed. Run its command "
    "again to continue it"
)


def _write_summary(path: Path, summary: RunSummary, words: Mapping[str, Any]) -> None:
    text = json.dumps(dump_summary(summary, words), indent=1, ensure_ascii=False)
    write_lines(path, append_seal([text.removesuffix("\n}") + ",\n"]))


def record_lines(records: Iterable[Record]) -> Iterator[str]:
    """Yield the lines of a file of records, one for each prompt."""
    for prompt, answers in groupby(records, lambda record: record.prompt):
        yield _dump_line(prompt, answers)


def _read_summary(content: bytes) -> RunSummary:
    """Read a summary from its file.

    Raises:
        ValueError: the file is not a summary; the message does not quote it.
    """
    values = parse_json(content)
    keys = set(values) if isinstance(values, dict) else set()
    missing = {"manifest", "benchmarks"} - keys
    if missing:
        raise ValueError(f"it has no {' and no '.join(sorted(missing))}")
    written = values.get("format")
    if written != FORMAT:
        raise ValueError(
            f"it has format {written}, but this version of refusal-checks reads {FORMAT}"
        )
    read_seal(content)
    summary = _summary_form().validate_python(values)
    require_metrics(summary)
    for benchmark in summary.benchmarks:
        if benchmark not in summary.manifest.data:
            raise ValueError(f"its manifest does not say what data {benchmark} used")
        if benchmark not in summary.manifest.judge_prompts:
            raise ValueError(f"its manifest does not say who judged {benchmark}")
    return summary


def _dump_line(prompt: Prompt, records: Iterable[Record]) -> str:
    answers = tuple(
        _Answer(record.sample, record.completion, record.judgement, record.votes)
        for record in records
    )
    line = _Line(prompt, answers)
    try:
        return _line_form().dump_json(line).decode() + "\n"
    except PydanticSerializationError:
        # Errors of servers may hold text that no encoding has.
        values = _line_form().dump_python(line, mode="json")
        return replace_surrogates(json.dumps(values, ensure_ascii=False)) + "\n"


def _why(fault: ValueError | RecursionError) -> str:
    """What is first wrong in a file, without quoting it."""
    if not isinstance(fault, ValidationError):
        return str(fault)
    first = fault.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {suggestions.describe_error(first)}"


def read_earlier_scores(path: Path) -> dict[str, Scores]:
    """Scores of an earlier run or an accepted baseline, by benchmark; see ``score_files.load``.

    Raises:
        BaselineError: there are none, or the run is unfinished.
        DataError: the run is not as it was written.
    """
    folder = RunFolder.of(path)
    if folder.is_unfinished:
        raise BaselineError(
            f"{path}: compare with a run that has ended: this one is unfinished"
        )
    if folder.summary_file.exists():
        folder.require_whole()
    return score_files.load(path)


def list_runs(root: Path) -> list[RunFolder]:
    """The runs below a folder, by start time."""
    ordered: list[tuple[datetime, Path]] = []
    for path in root.glob("*"):
        order = _order(path.name)
        if order is not None and path.is_dir():
            ordered.append((order, path))
    return [RunFolder(path) for _, path in sorted(ordered)]


def find_run(name: str, root: Path = ROOT) -> RunFolder:
    """Find a run by its id (its folder's name) or the start of one, its folder, or its summary.

    ``last`` is the latest run; a folder of that name is ``./last``.
    """
    if name not in (LAST, "") and Path(name).exists():
        return RunFolder.of(Path(name))
    runs = {run.path.name: run for run in list_runs(root)}
    if not runs:
        raise DataError(
            f"{name}: name a run's folder, or give --runs DIR: no runs found in {root}, and "
            "there is no such folder"
        )
    if name == LAST:
        return list(runs.values())[-1]
    begun = [run for run in runs if name and run.startswith(name)]
    if len(begun) > 1 and name not in runs:
        raise DataError(
            f"{name}: give more of the id: several runs match: {', '.join(begun)}"
        )
    if len(begun) == 1:
        return runs[begun[0]]
    require_known(name, [*runs, LAST], str(root), "run", DataError)
    return runs[name]


def locate_run(name: str, root: Path = ROOT) -> Path:
    """Return an existing path, such as an accepted baseline, else that of a run."""
    path = Path(name)
    if name not in (LAST, "") and path.exists():
        return path
    return find_run(name, root).path


def _order(name: str) -> datetime | None:
    """When a run started, read from its folder's name; None for other folders."""
    parts = _NAME.fullmatch(name)
    if parts is None:
        return None
    try:
        return datetime.strptime(parts[1], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    except ValueError:  # digits that are not a date
        return None


def require_writable(folder: Path, option: str) -> None:
    """Make the folder if it is missing; raise UserError if it is not writable."""
    try:
        make_private_folder(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as fault:
        raise UserError(
            f"{option} {folder}: name a folder that can be written: {fault.strerror or fault}"
        ) from None
