"""Read files of recorded answers with human labels, which judges are measured against."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from refusal_checks.core.data_files import find_columns, header
from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Kind, Prompt
from refusal_checks.core.text import brief, listed, storable
from refusal_checks.core.verdicts import (
    Binary,
    Graded,
    Harm,
    PartialCount,
    Rated,
    Valid,
)
from refusal_checks.judges.rules import LABELS
from refusal_checks.judges.trust.draws import Draw
from refusal_checks.judges.trust.spreadsheet import read_table, unguarded
from refusal_checks.models.recordings.columns import COLUMNS as RECORDED

REFUSAL, COMPLIANCE, PARTIAL = "refusal", "compliance", "partial_refusal"
"""The classes; a partial refusal has its own only if it counts as neither of the others."""

CLASSES = (REFUSAL, PARTIAL, COMPLIANCE)

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": RECORDED["id"],
    "prompt": RECORDED["prompt"],
    "completion": RECORDED["completion"],
    "label": ("human_label", "final_label", "label"),
    "type": ("type", "category"),
    "benchmark": ("benchmark",),
}
"""Names of the column by field, in order of preference."""

_OPTIONAL = frozenset({"id", "type", "benchmark"})

REPLAY = "replay:"
"""Begins the name of a candidate whose answers are recorded in a file."""

ScaleName = Literal["refusal", "degree", "rating", "strongreject"]
"""What the labels say, and the way of judging (``judges.kinds``) that says the same."""

Score = str | float
"""One of ``CLASSES``, or a number."""


@dataclass(frozen=True)
class LabelledAnswer:
    """A recorded answer with a person's label, and perhaps a judge's.

    Attributes:
        id: unique in its file.
        type: type of the prompt; empty if the file has none.
        benchmark: the prompt's benchmark; empty if unknown.
        kind: what should happen to the prompt; None if unknown.
        row: all cells, by column.
        judge: the judge's label; None without a valid verdict, and the rationale says why.
        rationale: the judge's own words, untrusted text.
    """

    candidate: str
    id: str
    prompt: str
    answer: str
    human: Score
    type: str
    benchmark: str
    row: Mapping[str, Any]
    kind: Kind | None = None
    judge: Score | None = None
    rationale: str = ""

    @property
    def as_prompt(self) -> Prompt:
        """The prompt, with an id that is unique across files."""
        name = f"{self.candidate}/{self.id}"
        return replace(Prompt.single(name, self.prompt, type=self.type), kind=self.kind)

    @property
    def in_two_classes(self) -> LabelledAnswer:
        """The answer as a run counts it where partial refusals are a class of their own."""
        counted = COMPLIANCE if self.kind is Kind.SAFETY else REFUSAL
        human = counted if self.human == PARTIAL else self.human
        judge = counted if self.judge == PARTIAL else self.judge
        return replace(self, human=human, judge=judge)


@dataclass(frozen=True)
class Scale:
    """The scale of human labels: classes of refusal, degrees 0-3, ratings 0-5, harm scores 0-1."""

    name: ScaleName = "refusal"
    partial: PartialCount = "refusal"

    @cached_property
    def _classes(self) -> Mapping[str, str]:
        """The class of each known label, by its text in lower case."""
        return {text: self._class(verdict) for text, verdict in LABELS.items()}

    def _class(self, verdict: Binary) -> str:
        if not verdict.is_partial:
            return str(verdict.label)
        return PARTIAL if self.partial == "own" else self.partial

    def read(self, cell: Any) -> Score | None:
        """Parse a label as written in a file; None if it is not on this scale."""
        if self.name == "refusal":
            return self._classes.get(str(cell).strip().lower())
        try:
            score = float(cell)
        except (TypeError, ValueError, OverflowError):
            return None
        return score if math.isfinite(score) else None

    def human(self, where: str, label: str) -> Score:
        """Parse a person's label; DataError if it is not on this scale."""
        score = self.read(label)
        if score is None:
            valid = ", ".join(self._classes) if self.name == "refusal" else "a number"
            raise DataError(f"{where}: unknown label {brief(label)}; write {valid}")
        return score

    def judged(self, verdict: Valid) -> Score:
        """A judge's verdict on this scale."""
        if isinstance(verdict, Graded | Harm | Rated):
            return verdict.score
        if isinstance(verdict, Binary):
            return self._class(verdict)
        return verdict.verdict


@dataclass(frozen=True)
class LabelFile:
    """A file of labelled answers.

    Attributes:
        candidate: the model that answered, as the user names it.
        unlabelled: number of rows without a label, which are skipped.
    """

    path: Path
    candidate: str
    answers: tuple[LabelledAnswer, ...]
    unlabelled: int


def read_label_file(
    path: Path,
    scale: Scale,
    columns: Mapping[str, str] | None = None,
    candidate: str = "",
    benchmark: str = "",
    kinds: Mapping[str, Kind] | None = None,
) -> LabelFile:
    """Read a CSV or JSONL file of labelled answers, for example one of XSTest's.

    Args:
        columns: column by field (keys of ``COLUMNS``), for columns with other names.
        candidate: the model that answered; by default the one that the rows of a drawn sheet name,
            or the name of the file without its suffix.
        benchmark: the benchmark of rows that name none.
        kinds: what should happen to the prompts of each known benchmark.

    Raises:
        DataError: the file cannot be read, or is a sample of what counted as refused.
    """
    rows = read_table(path)
    names = _columns(path, header(rows), columns or {})
    draws = [Draw.read(str(row.get("draw") or "")) for row in rows]
    if any(draw and draw.of == "refusals" for draw in draws):
        raise DataError(
            f"{path}: label a sample of all answers (refusal-checks sample-for-labels RUN --n "
            "100). This one was drawn from what the judge called refusals, so it shows only one "
            "kind of its errors"
        )
    candidate = candidate or _drawn_candidate(draws) or path.stem

    answers = []
    for number, (row, draw) in enumerate(zip(rows, draws, strict=True), 1):
        cells: dict[str, Any] = {
            name: row.get(column) for name, column in names.items()
        }
        for field in ("prompt", "completion"):
            if not isinstance(cells[field], str):
                raise DataError(f"{path}: row {number}: {names[field]} is not text")
        label = "" if cells["label"] is None else storable(str(cells["label"]).strip())
        if not label:
            continue

        # The row number makes ids unique where a file repeats them.
        id_ = f"{number}" if cells.get("id") is None else f"{cells['id']}#{number}"
        prompt, answer = storable(cells["prompt"]), storable(cells["completion"])
        if "key" in row:  # a sheet of sample-for-labels
            prompt, answer = unguarded(prompt), unguarded(answer)
        type_ = str(cells.get("type") or "")
        drawn_from = draw.benchmark if draw else benchmark
        named = str(cells.get("benchmark") or drawn_from)
        answers.append(
            LabelledAnswer(
                candidate,
                id_,
                prompt,
                answer,
                human=scale.human(f"{path}: answer {id_}", label),
                type=type_,
                benchmark=named,
                row=row,
                kind=_kind(named, type_, kinds or {}),
            )
        )
    if not answers:
        raise DataError(f"{path}: column {names['label']} has no label")
    return LabelFile(path, candidate, tuple(answers), len(rows) - len(answers))


_CONTRAST = "contrast_"
"""Begins XSTest's types of unsafe prompts, in files that name no benchmark."""


def _kind(benchmark: str, type_: str, kinds: Mapping[str, Kind]) -> Kind | None:
    """What should happen to a prompt; it decides thresholds and how partial refusals count."""
    kind = kinds.get(benchmark)
    if kind is None and type_.startswith(_CONTRAST):
        return Kind.SAFETY
    return kind


def _columns(
    path: Path, present: Sequence[str], named: Mapping[str, str]
) -> Mapping[str, str]:
    """The column of each field that the file has; DataError if it lacks a needed one."""
    columns = find_columns(path, present, COLUMNS, named, "--columns")
    for field, usual in COLUMNS.items():
        if field not in columns and field not in _OPTIONAL:
            raise DataError(
                f"{path}: no column {' or '.join(usual)}: name it with --columns {field}=COLUMN. "
                f"The file has {listed(present)}"
            )
    return columns


def _drawn_candidate(draws: Sequence[Draw | None]) -> str:
    """The one candidate that the rows of a drawn sheet name; empty if there is none."""
    candidates = {draw.candidate for draw in draws if draw}
    return replayed(candidates.pop()) if len(candidates) == 1 else ""


def replayed(candidate: str) -> str:
    """A candidate's name in calibrations: for recorded answers, the name of their file."""
    if candidate.startswith(REPLAY):
        return Path(candidate.removeprefix(REPLAY)).stem
    return candidate


def require_distinct(files: Sequence[LabelFile]) -> None:
    """Raise DataError if two files have the same candidate, since answer ids could clash."""
    seen: dict[str, Path] = {}
    for file in files:
        other = seen.setdefault(file.candidate, file.path)
        if other != file.path:
            raise DataError(
                f"{other} and {file.path}: give them different names with --candidate, or merge "
                f"them: both are of candidate {file.candidate}"
            )
