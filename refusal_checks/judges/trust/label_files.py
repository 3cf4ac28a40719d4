"""Files of recorded answers with human labels, against which judges are measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import DataError
from refusal_checks.core.files import find_columns, header, read_rows, require_in_data
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.text import listed, storable
from refusal_checks.judges.trust.label_draw import Draw
from refusal_checks.judges.trust.spreadsheet import unguarded
from refusal_checks.models.recordings.replay import COLUMNS as RECORDED

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": RECORDED["id"],
    "prompt": RECORDED["prompt"],
    "completion": RECORDED["completion"],
    "label": ("human_label", "final_label", "label"),
    "type": ("type", "category"),
    "benchmark": ("benchmark",),
}
"""Names of the column by field, in order of preference."""

REPLAY = "replay:"
"""Begins the name of a candidate whose answers are recorded in a file."""

_OPTIONAL = frozenset({"id", "type", "benchmark"})


@dataclass(frozen=True)
class LabelledAnswer:
    """One answer that a person labelled.

    Attributes:
        id: unique in its file.
        label: as written in the file.
        type: the prompt's type; empty if the file has none.
        row: all cells, by column.
        benchmark: whose prompt it is; empty if nothing says so.
    """

    id: str
    prompt: str
    answer: str
    label: str
    type: str
    row: Mapping[str, Any]
    benchmark: str = ""

    def as_prompt(self, source: str) -> Prompt:
        """The prompt, with an id that is unique across files."""
        return Prompt.single(f"{source}/{self.id}", self.prompt, type=self.type)

    @property
    def completion(self) -> Completion:
        """The answer as a candidate's completion."""
        return Completion(self.answer, label=self.label)


@dataclass(frozen=True)
class LabelFile:
    """The labelled answers of one file.

    Attributes:
        candidate: the model that gave the answers, as the user names it.
        unlabelled: number of rows without a label, which are skipped.
    """

    path: Path
    candidate: str
    answers: tuple[LabelledAnswer, ...]
    unlabelled: int

    def recorded(self, column: str) -> list[Any]:
        """The cells of one column, one per answer.

        Raises:
            DataError: there is no such column.
        """
        known = dict.fromkeys(name for answer in self.answers for name in answer.row)
        require_in_data(column, known, f"{self.path}: --judge labels:{column}")
        return [answer.row.get(column) for answer in self.answers]


def read(
    path: Path,
    columns: Mapping[str, str] | None = None,
    candidate: str = "",
    benchmark: str = "",
) -> LabelFile:
    """Read a CSV or JSONL file of labelled answers, for example one of XSTest's.

    Args:
        columns: column by field (keys of ``COLUMNS``), for columns with other names.
        candidate: the model that answered; by default the one that the rows of a drawn sheet name,
            or the name of the file without its suffix.
        benchmark: whose prompts they are, for rows that do not say so.

    Raises:
        DataError: the file is missing, malformed, lacks a column, or has no label.
    """
    rows = read_rows(path)
    names = _columns(path, header(rows), columns or {})
    answers = [_answer(path, number, row, names, benchmark) for number, row in enumerate(rows, 1)]
    labelled = tuple(answer for answer in answers if answer.label)
    if not labelled:
        raise DataError(f"{path}: column {names['label']} has no label")
    drawn = {draw.candidate for row in rows if (draw := _draw(row))}
    named = replayed(drawn.pop()) if len(drawn) == 1 else ""
    return LabelFile(path, candidate or named or path.stem, labelled, len(rows) - len(labelled))


def replayed(candidate: str) -> str:
    """A candidate as calibrations name it: recorded answers by the name of their file."""
    recorded = candidate.startswith(REPLAY)
    return Path(candidate.removeprefix(REPLAY)).stem if recorded else candidate


def _draw(row: Mapping[str, Any]) -> Draw | None:
    return Draw.read(str(row.get("draw") or ""))


def require_distinct(files: Sequence[LabelFile]) -> None:
    """Raise DataError if two files have one candidate: the ids of their answers could clash."""
    seen: dict[str, Path] = {}
    for file in files:
        other = seen.setdefault(file.candidate, file.path)
        if other != file.path:
            raise DataError(
                f"{other} and {file.path}: give them different names with --candidate, or merge "
                f"them: both are of candidate {file.candidate}"
            )


def _columns(path: Path, known: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    found = find_columns(path, known, COLUMNS, given, "--columns")
    for field, usual in COLUMNS.items():
        if field not in found and field not in _OPTIONAL:
            raise DataError(
                f"{path}: no column {' or '.join(usual)}: name it with --columns {field}=COLUMN. "
                f"The file has {listed(known)}"
            )
    return found


def _answer(
    path: Path, line: int, row: Mapping[str, Any], names: Mapping[str, str], benchmark: str
) -> LabelledAnswer:
    cells = {name: row.get(column) for name, column in names.items()}
    prompt, text = (_text(path, line, names[n], cells[n]) for n in ("prompt", "completion"))
    if "key" in row:  # written by sample-for-labels
        prompt, text = unguarded(prompt), unguarded(text)
    label, draw = cells["label"], _draw(row)
    return LabelledAnswer(
        id=f"{line}" if cells.get("id") is None else f"{cells['id']}#{line}",
        prompt=prompt,
        answer=text,
        label="" if label is None else storable(str(label).strip()),
        type=str(cells.get("type") or ""),
        row=row,
        benchmark=str(cells.get("benchmark") or (draw.benchmark if draw else benchmark)),
    )


def _text(path: Path, line: int, column: str, cell: Any) -> str:
    if not isinstance(cell, str):
        raise DataError(f"{path}: row {line}: {column} is not text")
    return storable(cell)
