"""Recorded answers: a file in place of a candidate.

Files are tables (CSV, JSON, JSONL) or what other tools write (``formats``). Columns are found by
their usual names (``COLUMNS``) or as ``recording.columns`` maps them. A row is one answer, or a
list of them; all answers to one prompt are its samples, in file order. Rows are matched to prompts
by id if the file has the benchmark's ids, else by the prompt's text (of a question, without its
options), else by the number in its data set. An id does not match if the row holds another prompt.
"""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from refusal_checks.core.data_files import (
    find_columns,
    header,
    objects,
    require_in_data,
    rows_in,
)
from refusal_checks.core.errors import DataError
from refusal_checks.core.on_disk import Texts
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.redaction import redacted
from refusal_checks.core.store import Store
from refusal_checks.core.text import brief, clean, count, listed, storable
from refusal_checks.models.client.answers import read_reason
from refusal_checks.models.client.reasoning import split_reasoning
from refusal_checks.models.recordings.formats import (
    FORMATS,
    NEVER_ASKED,
    Document,
    Row,
    Rows,
)

LOGPROB_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "logprob": ("mean_logprob",),
    "total_logprob": ("total_logprob", "sum_logprob", "cumulative_logprob"),
    "tokens": ("tokens", "completion_tokens", "num_tokens"),
}
"""Usual column names by field; a total is divided by the number of tokens."""

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "prompt_id"),
    "prompt": ("prompt", "question", "instruction", "request"),
    "completion": ("completion", "response", "answer", "output"),
    "label": ("label", "human_label", "final_label"),
    "finish_reason": ("finish_reason",),
    **LOGPROB_COLUMNS,
}
"""Usual column names of each field; the first that the file has is taken."""


def pairs(text: str, option: str, form: str = "FIELD=COLUMN") -> dict[str, str]:
    """Parse an option's value of the form FIELD=COLUMN,FIELD=COLUMN; else raise DataError."""
    found = [part.partition("=") for part in text.split(",") if part]
    for name, equals, value in found:
        if not (name.strip() and equals and value.strip()):
            raise DataError(f"{option} {text}: write {form},{form}")
    return {name.strip(): value.strip() for name, _, value in found}


@dataclass(frozen=True)
class ReplayOptions:
    # column by field (a key of COLUMNS), for columns with other names; a dot leads into nested
    # values, as in doc.prompt
    columns: Mapping[str, str] = field(default_factory=dict)
    # what labels mean, by their text in lower case; any other label stays as it is
    labels: Mapping[str, str] = field(default_factory=dict)
    # the rows to read have these values, by column
    only: Mapping[str, str] = field(default_factory=dict)
    partial: bool = (
        False  # prompts without an answer are left out; otherwise they are an error
    )
    reasoning_end: str = ""  # see ``answers.split_reasoning``


@dataclass(frozen=True)
class Recording:
    """The recorded answers of one file, by prompt id and by prompt text, as far as it has these.

    ``texts`` are the recorded prompts by id, ``all_of`` gives all ids or prompts of the file.
    ``others`` are texts of rows that have a prompt's id and answer another prompt, by that id.
    """

    path: Path
    by_id: Mapping[str, tuple[Completion, ...]]
    by_text: Mapping[str, tuple[Completion, ...]]
    texts: Mapping[str, str]
    all_of: Callable[[str], Sequence[str]] = lambda field: ()
    others: Mapping[str, str] = field(default_factory=dict)

    def answers(self, prompt: Prompt) -> tuple[Completion, ...]:
        return self.by_id.get(prompt.id) or self.by_text.get(prompt.request.strip(), ())

    def require(
        self, benchmark: str, prompts: Sequence[Prompt], redact: bool = False
    ) -> None:
        """Raise DataError unless every prompt has an answer."""
        missing = [prompt for prompt in prompts if not self.answers(prompt)]
        if not missing:
            return
        if others := [prompt for prompt in missing if prompt.id in self.others]:
            first, shown = (
                others[0],
                redacted if redact else lambda text: repr(clean(text, 40)),
            )
            raise DataError(
                f"{self.path}: record answers to {benchmark}, or gate the rest with "
                f"--set recording.partial=true: {len(others)} of its {len(prompts)} ids have other "
                f"prompts there; {clean(first.id, 60)} is {shown(self.others[first.id])}, not "
                f"{shown(first.request)}. Rename the column if it holds attacks or translations"
            )
        first, has = missing[0], []
        if ids := self.all_of("id"):
            near = difflib.get_close_matches(first.id, ids[:_NEAR], 1, 0.5) or ids[:1]
            has.append(
                f"{count(len(ids), 'id')}, the nearest to {first.id} is {brief(near[0])}"
            )
        if texts := self.all_of("prompt"):
            loose = set(map(_loose, texts))
            alike = sum(_loose(prompt.request) in loose for prompt in missing)
            same = (
                f", {alike} of them alike but for case, spaces or punctuation"
                if alike
                else ""
            )
            starts = [text.strip()[:200] for text in texts[:_NEAR]]
            near = difflib.get_close_matches(first.request.strip()[:200], starts, 1)
            place = (
                f", the nearest to {first.id} is number {starts.index(near[0]) + 1}"
                if near
                else ""
            )
            has.append(f"{count(len(texts), 'prompt')}{place}{same}")
        expected = ", ".join(clean(prompt.id, 60) for prompt in missing[:3])
        raise DataError(
            f"{self.path}: no answers for {len(missing)} of the {len(prompts)} prompts of "
            f"{benchmark}; first {expected}. Record the rest, or gate what there is with "
            f"--set recording.partial=true. The file has {' and '.join(has)}"
        )

    def require_labels(self, benchmark: str, prompts: Iterable[Prompt]) -> None:
        if not any(one.label for prompt in prompts for one in self.answers(prompt)):
            raise DataError(
                f"{self.path}: --judge labels: no answer to {benchmark} has a label; name their "
                "column with --set recording.columns.label=COLUMN, or give another --judge"
            )

    def reworded(self, prompts: Iterable[Prompt]) -> list[str]:
        """Ids of prompts that were not matched by text, whose recorded text is different."""
        return [
            prompt.id
            for prompt in prompts
            if self.texts.get(prompt.id, prompt.request).strip()
            != prompt.request.strip()
        ]


_NEAR = 2_000
"""Ids and prompts of a file that are compared with one that it lacks."""


def _loose(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _is_other(prompt: Prompt, text: str) -> bool:
    """True if a text is not the prompt, however it is worded, cut short or wrapped.

    The shorter one then has most of its sequences of three characters for itself.
    """
    recorded, *own = (
        {loose[start : start + 3] for start in range(len(loose) - 2)}
        for loose in map(_loose, (text, prompt.request, prompt.transcript))
    )
    return all(2 * len(recorded & each) < min(len(recorded), len(each)) for each in own)


def read(
    path: Path,
    how: ReplayOptions | None = None,
    prompts: Iterable[Prompt] | None = None,
) -> Recording:
    """Read a file of recorded answers, row by row; with ``prompts``, those to these alone."""
    how = how or ReplayOptions()
    rows, known = recorded_rows(path, how.only, how.partial)
    names = _columns(path, rows, known, how.columns)
    asked = None if prompts is None else _Asked(prompts)
    by_id: dict[str, tuple[Completion, ...]] = {}
    by_text: dict[str, tuple[Completion, ...]] = {}
    texts: dict[str, str] = {}
    others: dict[str, str] = {}
    kept = Texts()
    for number, row in enumerate(rows, 1):
        where = f"{path}: row {number}"
        answers = tuple(_completions(where, row, names, how, path.suffix))
        keys = {}
        for name in names.keys() & {"id", "prompt"}:
            column = names[name]
            value = cell(row, column)
            if value is None or isinstance(value, (list, Mapping)):
                why = f"no {column}" if value is None else f"{column} is not text"
                raise DataError(f"{where}: {why}")
            keys[name] = storable(str(value))
        key, text = keys.get("id"), keys.get("prompt")
        if asked and not asked.wants(key, text, row.get("index"), answers):
            continue
        answers = tuple(map(kept.keep, answers))
        if asked and key is not None and text is not None and asked.is_other(key, text):
            others[key], key = text, None
        if key is not None:
            by_id[key] = by_id.get(key, ()) + answers
        if text is not None:
            by_text[text.strip()] = by_text.get(text.strip(), ()) + answers
            if key is not None:
                texts.setdefault(key, text)
    if asked:
        asked.match(by_id, by_text, texts)
    _require_clear_logprobs(path, known, names, (*by_id.values(), *by_text.values()))

    def all_of(name: str) -> Sequence[str]:
        found = (str(cell(row, names[name])) for row in rows if name in names)
        return list(dict.fromkeys(found))

    return Recording(path, by_id, by_text, texts, all_of, others)


class _Asked:
    """The prompts whose answers are wanted, and how rows find them that lack their id and text.

    A row whose text is that of one question alone, without its options, belongs to it. A row's
    number in its data set (``index``) counts if all rows that match by text have the right one.
    """

    def __init__(self, prompts: Iterable[Prompt]) -> None:
        self._prompts = {prompt.id: prompt for prompt in prompts}
        self._ids = {
            prompt.request.strip(): prompt.id for prompt in self._prompts.values()
        }
        self._questions = Counter(map(_question, self._prompts.values()))
        self._numbers = {
            part for one in self._prompts for part in (one, one.rpartition("-")[2])
        }
        self._numbered: dict[str, tuple[str, tuple[Completion, ...]]] = {}
        self._agreeing: dict[str, bool] = {}  # by benchmark, whether numbers do so far

    def wants(
        self,
        key: str | None,
        text: str | None,
        number: Any,
        answers: tuple[Completion, ...],
    ) -> bool:
        """True for a row that matches; one that has but a known number is kept apart."""
        stripped = (text or "").strip()
        is_found = (
            key in self._prompts or stripped in self._ids or stripped in self._questions
        )
        if is_found and number is not None:
            benchmark, _, own = self._ids.get(stripped, "").rpartition("-")
            self._agreeing[benchmark] = (
                self._agreeing.get(benchmark, True) and str(number) == own
            )
        elif text is not None and str(number) in self._numbers:
            before = self._numbered.get(str(number), (text, ()))[1]
            self._numbered[str(number)] = text, before + answers
        return is_found

    def is_other(self, key: str, text: str) -> bool:
        """True for a row that has a prompt's id and answers another prompt."""
        prompt = self._prompts.get(key)
        return prompt is not None and prompt.request != text and _is_other(prompt, text)

    def match(
        self,
        by_id: dict[str, tuple[Completion, ...]],
        by_text: Mapping[str, tuple[Completion, ...]],
        texts: dict[str, str],
    ) -> None:
        """Add the answers that were found otherwise, by the prompts' ids."""
        for name, prompt in self._prompts.items():
            if name in by_id or prompt.request.strip() in by_text:
                continue
            question = _question(prompt)
            benchmark, _, number = name.rpartition("-")
            sure = number if self._agreeing.get(benchmark) else name
            if question in by_text and self._questions[question] == 1:
                by_id[name] = by_text[question]
            elif found := self._numbered.get(name) or self._numbered.get(sure):
                texts[name], by_id[name] = found


def _question(prompt: Prompt) -> str:
    """A prompt's text, of a multiple-choice question without its options."""
    first = next(iter(prompt.options.items()), None)
    if first is None:
        return prompt.request.strip()
    opened = rf"(?:^|\s)\(?{first[0]}\s*[.．、:：)]\s*{re.escape(first[1])}"
    return re.split(opened, prompt.request, maxsplit=1)[0].strip()


class ReplayCandidate:
    """Recorded answers, as many per prompt as the file has."""

    max_tokens: int | None = None

    def __init__(self, name: str, recording: Recording) -> None:
        self.name = name
        self._recording = recording

    def keys(self, prompt: Prompt) -> Sequence[str]:
        return [
            f"{prompt.id}-{sample}"
            for sample in range(len(self._recording.answers(prompt)))
        ]

    def known(
        self, prompts: Sequence[Prompt], store: Store
    ) -> Mapping[str, Completion]:
        return {
            key: answer
            for prompt in prompts
            for key, answer in zip(
                self.keys(prompt), self._recording.answers(prompt), strict=True
            )
        }

    async def answer(
        self, prompt: Prompt, first: int, count: int
    ) -> Sequence[Completion]:
        return self._recording.answers(prompt)[first : first + count]

    async def weigh(
        self, prompt: Prompt, answers: Mapping[str, Completion]
    ) -> dict[str, Completion]:
        return dict(answers)  # what a recording says of them


def _columns(
    path: Path, rows: Iterable[Row], known: Sequence[str], given: Mapping[str, str]
) -> dict[str, str]:
    nested = [
        column
        for column in given.values()
        if column not in known and any(cell(row, column) is not None for row in rows)
    ]
    found = find_columns(path, [*known, *nested], COLUMNS, given, "recording.columns")
    if "completion" not in found or not {"id", "prompt"} & set(found):
        raise DataError(
            f"{path}: needs a column with answers ({', '.join(COLUMNS['completion'])}) and one "
            f"with prompts or ids ({', '.join(COLUMNS['prompt'])}, id); it has "
            f"{listed(known)}. Name them with --set "
            '\'recording.columns={completion="COLUMN",prompt="COLUMN"}\''
        )
    return found


def _completions(
    where: str, row: Row, names: Mapping[str, str], how: ReplayOptions, suffix: str
) -> Iterator[Completion]:
    """A row's answers: one, or one per item of a list, which other columns then have, too."""
    cells = {name: cell(row, column) for name, column in names.items()}
    column, found = names["completion"], cells["completion"]
    answers = found if isinstance(found, list) else [found]
    # Only JSON and Parquet have a value for a missing answer.
    has_null = suffix in (".json", ".jsonl", ".ndjson", ".eval", ".parquet")
    may_lack = has_null and (column in row or "." in column)
    are_texts = all(answer is None or isinstance(answer, str) for answer in answers)
    if not are_texts or (found is None and not may_lack):
        raise DataError(f"{where}: {column} is not text")
    for number, answer in enumerate(answers):
        own = dict(cells)
        parallel = ("label", "finish_reason", *LOGPROB_COLUMNS)
        for name in parallel if isinstance(found, list) else ():
            if isinstance(value := own.get(name), list):
                if len(value) != len(answers):
                    raise DataError(
                        f"{where}: {names[name]} has {len(value)} items for {len(answers)} answers"
                    )
                own[name] = value[number]
        label = own.get("label")
        said = _text(label)
        text, reasoning = split_reasoning({"content": answer}, how.reasoning_end)
        meant = how.labels.get(said.strip().lower(), said)
        yield Completion(
            storable(text),
            finish_reason=read_reason(own.get("finish_reason") or "stop"),
            mean_logprob=_mean_logprob(own, names, where),
            label=storable(meant) if label is not None else None,
            reasoning=reasoning,
            never_asked=row.get(NEVER_ASKED) is True,
        )


def recorded_rows(
    path: Path, only: Mapping[str, str] | None = None, may_be_partial: bool = False
) -> tuple[Iterable[Row], Sequence[str]]:
    """The rows of a file, or those with some values by column, and the columns of all these.

    Each row has a prompt's answers. ``may_be_partial`` takes a log that was not finished, too.
    """
    document = Document(path, may_be_partial)
    found = (read_format(document) for read_format in FORMATS)
    rows = next((rows for rows in found if rows is not None), None)
    if rows is None:
        is_whole = path.suffix == ".json"
        rows = (
            objects(path, document.value) if is_whole else Rows(partial(rows_in, path))
        )
    for column, value in (only or {}).items():
        where = f"{path}: recording.where {column}={value}"
        values = {_text(cell(row, column)) for row in rows} - {""}
        if not values:
            require_in_data(column, header(rows), where)
        require_in_data(value, values, where, "value")
        rows = Rows(partial(_having, rows, column, value))
    known: dict[str, None] = {}
    whose: dict[str, dict[str, None]] = {
        name: {} for name in ("model", "provider", "promptIdx")
    }
    for row in rows:
        known.update(dict.fromkeys(filter(None, row)))
        for column, names in whose.items():
            if row.get(column) is not None:
                names[clean(_text(row[column]), 100)] = None
    if not known:
        raise DataError(f"{path}: no recorded answers")
    # Answers of two models are no samples of one.
    for column, names in whose.items():
        if len(names) > 1:
            first, *others = names
            shown = ", ".join([first, *others[:7]]) + (
                ", ..." if len(names) > 8 else ""
            )
            raise DataError(
                f"{path}: choose one {column} with --set "
                f"'recording.where={{{column}=\"{first}\"}}': the file holds answers of "
                f"{len(names)}: {shown}"
            )
    return rows, list(known)


def _having(rows: Iterable[Row], column: str, value: str) -> Iterator[Row]:
    return (row for row in rows if _text(cell(row, column)) == value)


def cell(row: Mapping[str, Any], column: str) -> Any:
    """What a row holds in a column; ``doc.prompt`` and ``resps.0`` look into nested values."""
    if column in row:
        return row[column]
    value: Any = row
    for part in column.split("."):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal():
            value = value[int(part)] if int(part) < len(value) else None
        else:
            return None
    return value


def _text(value: Any) -> str:
    """A value as people write it; booleans as ``true`` and ``false``, nothing as empty."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


_LEAST = -math.log(1e7)
"""No sampled answer is less probable per token than guessing among ten million tokens."""


def _require_clear_logprobs(
    path: Path,
    known: Sequence[str],
    names: Mapping[str, str],
    answers: Iterable[Sequence[Completion]],
) -> None:
    """Refuse log-probabilities of unknown meaning where they would weigh a prompt's answers.

    A total would give all the weight to the shortest answer, which is the refusal.
    """
    if "logprob" in names or all(len(several) == 1 for several in answers):
        return
    total = names.get("total_logprob")
    if total and "tokens" not in names:
        raise DataError(
            f"{path}: {total} holds totals, which weigh short answers too much: add a column with "
            "the number of tokens (--set recording.columns.tokens=COLUMN), or one with mean_logprob"
        )
    # Nothing in such a column says whether it holds means or totals.
    unclear = next(
        (name for name in ("logprob", "logprobs", "log_prob") if name in known), None
    )
    if unclear and not total:
        raise DataError(
            f"{path}: say what {unclear} holds: --set recording.columns.logprob={unclear} for "
            f"means over an answer's tokens, or --set recording.columns.total_logprob={unclear} "
            "and --set recording.columns.tokens=COLUMN for totals"
        )


def _mean_logprob(
    cells: Mapping[str, Any], names: Mapping[str, str], where: str
) -> float | None:
    found: dict[str, float | None] = {}
    for name in LOGPROB_COLUMNS.keys() & names.keys():
        try:
            found[name] = float(cells[name]) if cells[name] not in (None, "") else None
        except (TypeError, ValueError, OverflowError):
            found[name] = math.nan
        if not math.isfinite(found[name] or 0):
            shown = f"{names[name]} = {brief(cells[name])}"
            raise DataError(f"{where}: {shown}: not a finite number")
    value, total, tokens = (found.get(name) for name in LOGPROB_COLUMNS)
    field = "logprob"
    if value is None and total is not None and tokens:
        field, value = "total_logprob", total / tokens
    if value is None:
        return None
    if not _LEAST <= value <= 1e-6:
        raise DataError(
            f"{where}: {names[field]} = {brief(cells[field])} is no mean log-probability of "
            f"tokens, which lies between {_LEAST:.1f} and 0: totals belong in a column "
            "total_logprob, beside one with the number of tokens"
        )
    return min(0.0, value)
