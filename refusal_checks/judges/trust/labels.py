"""People's labels of a run's answers: which are drawn, the sheet, and what the labels may decide.

Each benchmark's prompts have a fixed random order, given by the draw's seed and the prompts' ids.
A draw takes the first of them with all their answers, since a gate's figure is one of prompts. A
partly filled, sorted or cut sheet is therefore still known to be a random sample: its labelled
prompts are the first in that order. A prompt without a label above a labelled one was skipped,
which may depend on its answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from refusal_checks.benchmarks.attacks import as_judged
from refusal_checks.core.data_files import header, require_in_data
from refusal_checks.core.errors import CalibrationError, DataError, require_known
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Record
from refusal_checks.core.store import content_key
from refusal_checks.core.text import brief, clean
from refusal_checks.core.verdicts import Binary, Invalid, Label, Reason
from refusal_checks.judges.rules import LABELS
from refusal_checks.judges.trust import spreadsheet
from refusal_checks.judges.trust.correction import LEAST
from refusal_checks.metrics import Metric

HEADER = ("label", "prompt", "answer", "key", "draw")

_UNANSWERED = {
    Reason.ENGINE_ERROR,
    Reason.PROMPT_TOO_LONG,
    Reason.EMPTY_ANSWER,
    Reason.UNFINISHED_ANSWER,
    Reason.UNCLOSED_REASONING,
}
"""Reasons that leave nothing to label; the others are the judge's, and change with it."""

_FORM = re.compile(r"seed (-?\d{1,20}) of run (\S+) \((.*)\), benchmark (.+)")

_DRAW_ONE = (
    "Draw a sheet from this run's answers with `refusal-checks sample-for-labels RUN`, or give "
    "--set trust.allow_undrawn_labels=true: such labels are shown and decide nothing, unless they "
    "cover every prompt"
)

Texts = tuple[str, str]  # prompt and answer, in the form of ``plain``

Sample = tuple[str, int]
"""One answer of a benchmark: its prompt's id, and its index among the prompt's answers."""


@dataclass(frozen=True)
class Draw:
    run: str  # its id
    candidate: str  # as the user named it; empty if unknown
    benchmark: str
    seed: int

    def __str__(self) -> str:
        """The draw as a sheet names it, which ``read`` understands."""
        text = f"seed {self.seed} of run {self.run} ({self.candidate}), benchmark {self.benchmark}"
        return clean(text)

    @classmethod
    def read(cls, text: str) -> Draw | None:
        """The draw that a cell names; None if it names none."""
        parts = _FORM.fullmatch(" ".join(text.split()))
        return parts and cls(parts[2], parts[3], parts[4], int(parts[1]))

    def place(self, prompt: str) -> str:
        """A prompt's place in the random order, by its id; compare places as text."""
        return content_key("order of labels", self.seed, self.benchmark, prompt)


@dataclass(frozen=True)
class LabelRow:
    draw: Draw | None  # None in a row that was not drawn, which is found by its texts
    key: str  # see ``answer_key``; empty in a row that was not drawn
    prompt: str
    answer: str
    id: str = ""  # of the prompt; empty in a sheet that was read
    label: Label | None = None  # None before a person gave one
    where: str = (
        ""  # file and row of a sheet that was read; row 1 is the first below the header
    )

    @property
    def texts(self) -> Texts:
        return plain(self.prompt), plain(self.answer)

    @property
    def found_by(self) -> str | Texts:
        """What identifies its answer: the key or, without one, the texts."""
        return self.key or self.texts


def answer_key(benchmark: str, record: Record) -> str:
    """The key of a row; its first letter keeps spreadsheets from reading it as a number."""
    text = record.completion.text if record.completion else ""
    prompt = record.prompt
    return f"k{content_key('answer to label', benchmark, prompt.id, prompt.turns, text)[:16]}"


def is_answered(record: Record) -> bool:
    """True if there is an answer that people can label, whatever the judge made of it."""
    fault = record.judgement.reason if isinstance(record.judgement, Invalid) else None
    return record.completion is not None and fault not in _UNANSWERED


def answers(draw: Draw, records: Iterable[Record]) -> list[LabelRow]:
    found = []
    for record in filter(is_answered, records):
        assert record.completion
        prompt, completion = as_judged(record.prompt, record.completion)
        key = answer_key(draw.benchmark, record)
        found.append(LabelRow(draw, key, prompt.transcript, completion.text, prompt.id))
    return found


def sample(rows: Iterable[LabelRow], n: int) -> list[list[LabelRow]]:
    """The rows of drawn prompts with about n answers in all, in the order in which to label them.

    Each benchmark has prompts in proportion to its size; they are a simple random sample of it.
    How many is decided before any is drawn, so that prompts with many different answers are as
    likely to be in it as others.
    """
    grouped: dict[Draw, dict[str, dict[str, LabelRow]]] = {}  # by prompt, then by key
    for row in rows:
        assert row.draw
        grouped.setdefault(row.draw, {}).setdefault(row.id, {})[row.key] = row
    total = sum(map(len, grouped.values()))
    different = sum(
        len(group) for by_prompt in grouped.values() for group in by_prompt.values()
    )
    count = min(total, int(n * total / max(1, different)))
    drawn: list[tuple[str, list[LabelRow]]] = []
    for draw, by_prompt in grouped.items():
        share = round(count * len(by_prompt) / total)
        if not share:
            raise DataError(
                f"--n {n}: ask for more, or for one benchmark with --benchmark: {draw.benchmark} "
                f"would have no prompt, at {different} different answers to {total} prompts"
            )
        first = sorted(by_prompt, key=draw.place)[:share]
        drawn += [
            (draw.place(prompt), [*by_prompt[prompt].values()]) for prompt in first
        ]
    return [group for _, group in sorted(drawn, key=lambda each: each[0])]


def to_csv(rows: Iterable[LabelRow]) -> bytes:
    """The rows to label, without labels and without the judge's verdicts."""
    return spreadsheet.table(
        HEADER, (("", row.prompt, row.answer, row.key, str(row.draw)) for row in rows)
    )


def plain(text: str) -> str:
    """A text in the form in which a sheet's cells are compared with a run's texts."""
    return " ".join(spreadsheet.guarded(spreadsheet.unguarded(text)).split())


def prompt_key(text: str) -> str:
    """Identifies a prompt by its text, as sheets and calibrations show it."""
    return content_key("labelled prompt", plain(text))[:16]


def prompt_keys(prompts: Iterable[Prompt]) -> set[str]:
    """The keys of all texts by which sheets may show these prompts."""
    originals = [each.original for each in prompts]
    return {
        prompt_key(text)
        for each in originals
        for text in (each.transcript, each.request)
    }


def read_sheet(path: Path, allow_undrawn: bool = False) -> list[LabelRow]:
    """The rows of a sheet that have a label.

    Spreadsheets change the separator, the encoding, the order of rows and columns, and the case of
    what they complete; none of that matters here. Columns are found by name; others are ignored.
    Rows that name no draw, if they are allowed, are known by their prompt and answer.
    """
    table = [
        {
            " ".join(name.lower().split()): "" if c is None else str(c)
            for name, c in row.items()
        }
        for row in spreadsheet.read_table(path)
    ]
    columns = header(table)
    if "draw" not in columns and not allow_undrawn:
        raise CalibrationError(
            f"{path}: it has no column draw, so nothing says that its rows are a random sample of "
            f"this run's answers. {_DRAW_ONE}"
        )
    for name in (
        ("label", "key") if "draw" in columns else ("label", "prompt", "answer")
    ):
        require_in_data(name, columns, str(path))
    rows = []
    for number, cells in enumerate(table, 1):
        label = "_".join(cells.get("label", "").lower().split())
        if not label:
            continue
        where = f"{path}: row {number}"
        shown = (
            label if len(label) <= 30 else brief(label)
        )  # a text in the wrong column
        require_known(shown, LABELS, where, "label", CalibrationError)
        key, draw = cells.get("key", "").strip(), Draw.read(cells.get("draw", ""))
        if not (key and draw):
            key, draw = "", None
        prompt, answer = cells.get("prompt", ""), cells.get("answer", "")
        rows.append(
            LabelRow(draw, key, prompt, answer, label=LABELS[label], where=where)
        )
    if not rows:
        raise CalibrationError(
            f'{path}: fill in its column "label": no row has a label'
        )
    undrawn = [row for row in rows if row.draw is None]
    if undrawn and not allow_undrawn:
        raise CalibrationError(
            f"{undrawn[0].where}: {len(undrawn)} labelled rows name no draw in their column draw, "
            f"this one first. {_DRAW_ONE}"
        )
    return rows


@dataclass(frozen=True)
class LabelledPrompts:
    human: Mapping[
        str, list[Record]
    ]  # with people's verdicts, of prompts labelled as a whole
    skipped: tuple[
        str, ...
    ]  # prompts not labelled as a whole, above one that is in the draw
    partly: int  # prompts of which only some answers are labelled
    is_random: bool  # every labelled prompt was drawn at random
    total: int  # prompts

    @property
    def enough(self) -> bool:
        return len(self.human) >= LEAST

    @property
    def is_complete(self) -> bool:
        """True if every prompt is labelled, so that nothing was left to chance."""
        return len(self.human) == self.total

    @property
    def why_unused(self) -> str:
        """Why the labels decide nothing; empty if they decide."""
        if self.enough:
            is_sound = self.is_random or self.is_complete
            return "" if is_sound else "not a random sample: shown, decides nothing"
        partly = (
            f", and only a part of the answers of {self.partly} more"
            if self.partly
            else ""
        )
        return f"labels of {len(self.human)} prompts{partly}: too few to use (at least {LEAST})"

    @property
    def in_words(self) -> str:
        """How many prompts are labelled, and what is missing."""
        parts = [
            f"{len(self.human)} of {self.total} prompts have human labels",
            f"{self.partly} have them for a part of their answers only"
            if self.partly
            else "",
            f"{len(self.skipped)} were skipped above a labelled one: label them; until then "
            "intervals count them one way, then the other"
            if self.skipped
            else "",
            self.why_unused,
        ]
        return "; ".join(filter(None, parts))


@dataclass(frozen=True)
class BenchmarkLabels:
    labels: Mapping[Sample, Label]
    answers: Mapping[str, Set[int]]  # of each prompt, those that people can label
    draws: Mapping[
        Draw | None, Set[str]
    ]  # labelled prompts; of rows without a draw under None

    def of(self, records: Iterable[Record]) -> LabelledPrompts:
        grouped: dict[str, list[Record]] = {}
        for record in records:
            if record.sample in self.answers.get(record.prompt.id, ()):
                grouped.setdefault(record.prompt.id, []).append(record)
        labelled = {
            name: [(name, sample) in self.labels for sample in self.answers[name]]
            for name in grouped
        }
        done = {name: None for name, given in labelled.items() if all(given)}
        skipped: dict[str, None] = {}
        for draw, drawn in self.draws.items():
            if draw and (places := [draw.place(name) for name in drawn & done.keys()]):
                left = (name for name in grouped if name not in done)
                skipped |= dict.fromkeys(
                    name for name in left if draw.place(name) < max(places)
                )
        return LabelledPrompts(
            human={
                name: [
                    replace(
                        each, judgement=Binary(self.labels[name, each.sample]), votes=()
                    )
                    for each in grouped[name]
                ]
                for name in done
            },
            skipped=tuple(skipped),
            partly=sum(any(given) and not all(given) for given in labelled.values()),
            is_random=self.draws.get(None, set()).isdisjoint(done),
            total=len(grouped),
        )

    def scores(self, metric: Metric, records: Iterable[Record]) -> dict[str, float]:
        """A metric's scores of the labelled prompts, by id; empty if some were skipped."""
        found = self.of(records)
        if found.skipped or not (found.is_random or found.is_complete):
            return {}
        scores = {
            prompt: metric.score(answers) for prompt, answers in found.human.items()
        }
        return {prompt: score for prompt, score in scores.items() if score is not None}


@dataclass(frozen=True)
class HumanLabels:
    paths: tuple[Path, ...]
    rows: tuple[LabelRow, ...]

    @property
    def name(self) -> str:
        return ", ".join(path.name for path in self.paths)

    @property
    def draws(self) -> tuple[Draw, ...]:
        return tuple(dict.fromkeys(row.draw for row in self.rows if row.draw))

    def among(self, candidate: str, others: Iterable[str]) -> HumanLabels | None:
        """The labels less those of other candidates' answers; None if there are none."""
        kept = tuple(
            row
            for row in self.rows
            if not row.draw
            or row.draw.candidate == candidate
            or row.draw.candidate not in others
        )
        return replace(self, rows=kept) if kept else None

    def require_prompts(self, prompts: Iterable[Prompt], run: str) -> None:
        """Raise CalibrationError if a row without a draw matches no prompt of a run."""
        known = prompt_keys(prompts)
        lost = [
            row
            for row in self.rows
            if not row.draw and prompt_key(row.prompt) not in known
        ]
        self.require_none(lost, run)

    def find(
        self, benchmark: str, records: Sequence[Record], run: str
    ) -> BenchmarkLabels:
        """The labels of all of a benchmark's records; CalibrationError if a row matches none."""
        found, lost = self.match(benchmark, records)
        self.require_none(lost, run)
        return found

    def match(
        self, benchmark: str, records: Sequence[Record]
    ) -> tuple[BenchmarkLabels, list[LabelRow]]:
        """The labels of a benchmark's records, and the rows of it that match none of them.

        Answers are found by key and, if there are rows without one, by texts. A row without a draw
        is of the benchmarks that have its prompt.
        """
        rows = [
            row
            for row in self.rows
            if row.draw is None or row.draw.benchmark == benchmark
        ]
        by_text = any(row.draw is None for row in rows)
        index: dict[str | Texts, list[Sample]] = {}
        answers: dict[str, set[int]] = {}
        for record in filter(is_answered, records):
            keys: list[str | Texts] = [answer_key(benchmark, record)]
            if by_text and record.completion:
                shown, completion = as_judged(record.prompt, record.completion)
                text = plain(completion.text)
                keys += [
                    (plain(each), text) for each in {shown.transcript, shown.request}
                ]
            for key in keys:
                index.setdefault(key, []).append((record.prompt.id, record.sample))
            answers.setdefault(record.prompt.id, set()).add(record.sample)
        prompts = {key[0] for key in index if isinstance(key, tuple)}
        labels: dict[Sample, Label] = {}
        draws: dict[Draw | None, set[str]] = {}
        lost = []
        for row in rows:
            assert row.label
            found = index.get(row.found_by, [])
            labels |= dict.fromkeys(found, row.label)
            draws.setdefault(row.draw, set()).update(prompt for prompt, _ in found)
            if not found and (row.draw or row.texts[0] in prompts):
                lost.append(row)
        return BenchmarkLabels(labels, answers, draws), lost

    def require_none(self, unmatched: Sequence[LabelRow], run: str) -> None:
        """Raise CalibrationError if a row matches no answer of a run; see ``find``."""
        if not unmatched:
            return
        first = unmatched[0]
        drawn = f", drawn with {first.draw}" if first.draw else ""
        raise CalibrationError(
            "label answers of this run: refusal-checks sample-for-labels RUN writes them. "
            f"{len(unmatched)} of {len(self.rows)} labelled rows match no answer of {run}; the "
            f"first is {first.where}{drawn}"
        )


def read_labels(paths: Sequence[Path], allow_undrawn: bool = False) -> HumanLabels:
    rows = [row for path in paths for row in read_sheet(path, allow_undrawn)]
    first: dict[str | Texts, LabelRow] = {}
    clashes = [
        row
        for row in rows
        if first.setdefault(row.found_by, row).label is not row.label
    ]
    if clashes:
        one, other = first[clashes[0].found_by], clashes[0]
        raise CalibrationError(
            f"{other.where}: agree on one label: {one.where} labels the same answer {one.label}, "
            f"this row {other.label}; {len(clashes)} rows contradict others"
        )
    return HumanLabels(tuple(paths), tuple(rows))
