"""The labels that people gave to a run's answers: whose they are, and what they may decide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from refusal_checks.benchmarks.attacks import as_judged
from refusal_checks.core.errors import CalibrationError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Binary, Label
from refusal_checks.judges.trust import label_sheet
from refusal_checks.judges.trust.label_draw import Draw, answer_key, is_answered
from refusal_checks.judges.trust.label_sheet import LabelledRow, plain
from refusal_checks.judges.trust.prediction_powered import LEAST

Sample = tuple[str, int]
"""One answer of a benchmark: its prompt's id, and its index among the prompt's answers."""


Index = Mapping[str | tuple[str, str], list[Sample]]
"""Answers by key, and by plain texts of prompt and answer."""


@dataclass(frozen=True)
class LabelledPrompts:
    """What people said of a set of prompts.

    Attributes:
        human: records with people's verdicts, by id of the prompts whose answers are all labelled.
        skipped: ids of prompts without all labels that stand above a labelled one in the draw.
        partly: how many prompts have only some of their answers labelled.
        is_random: every labelled prompt was drawn at random.
        total: how many prompts there are.
    """

    human: Mapping[str, list[Record]]
    skipped: tuple[str, ...]
    partly: int
    is_random: bool
    total: int

    @property
    def enough(self) -> bool:
        """True if the labels give an interval."""
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
        partly = f", and only a part of the answers of {self.partly} more" if self.partly else ""
        return f"labels of {len(self.human)} prompts{partly}: too few to use (at least {LEAST})"

    @property
    def in_words(self) -> str:
        """How many prompts are labelled, and what is missing."""
        parts = [
            f"{len(self.human)} of {self.total} prompts have human labels",
            f"{self.partly} have them for a part of their answers only" if self.partly else "",
            f"{len(self.skipped)} were skipped above a labelled one: label them; until then "
            "intervals count them one way, then the other"
            if self.skipped
            else "",
            self.why_unused,
        ]
        return "; ".join(filter(None, parts))


@dataclass(frozen=True)
class BenchmarkLabels:
    """The labels of a benchmark's answers.

    Attributes:
        labels: by answer.
        answers: of each prompt, those that people can label.
        draws: the prompts with labels of each draw; of the rows without a draw under None.
    """

    labels: Mapping[Sample, Label]
    answers: Mapping[str, frozenset[int]]
    draws: Mapping[Draw | None, frozenset[str]]

    def of(self, records: Iterable[Record]) -> LabelledPrompts:
        """The labels of some of the benchmark's records, for example of one group."""
        grouped: dict[str, list[Record]] = {}
        for record in records:
            if record.sample in self.answers.get(record.prompt.id, ()):
                grouped.setdefault(record.prompt.id, []).append(record)
        missing = {
            prompt: sum((prompt, sample) not in self.labels for sample in self.answers[prompt])
            for prompt in grouped
        }
        done = {prompt for prompt, count in missing.items() if not count}
        return LabelledPrompts(
            human={
                prompt: [
                    replace(each, judgement=Binary(self.labels[prompt, each.sample]), votes=())
                    for each in grouped[prompt]
                ]
                for prompt in grouped
                if prompt in done
            },
            skipped=self._skipped(missing, done),
            partly=sum(0 < count < len(self.answers[name]) for name, count in missing.items()),
            is_random=not done & self.draws.get(None, frozenset()),
            total=len(grouped),
        )

    def _skipped(self, prompts: Iterable[str], done: set[str]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for draw, drawn in self.draws.items():
            if draw is None or not drawn & done:
                continue
            last = max(map(draw.place, drawn & done))
            found |= dict.fromkeys(
                prompt for prompt in prompts if prompt not in done and draw.place(prompt) < last
            )
        return tuple(found)


@dataclass(frozen=True)
class HumanLabels:
    """The labelled rows of one sheet or several.

    Attributes:
        paths: the sheets.
        rows: every labelled row.
    """

    paths: tuple[Path, ...]
    rows: tuple[LabelledRow, ...]

    @property
    def name(self) -> str:
        """The sheets' names."""
        return ", ".join(path.name for path in self.paths)

    @property
    def draws(self) -> tuple[Draw, ...]:
        """The draws that the rows name, in their order."""
        return tuple(dict.fromkeys(row.draw for row in self.rows if row.draw))

    def among(self, candidate: str, others: Iterable[str]) -> HumanLabels | None:
        """The labels for one candidate of several; None if there are none.

        Left out are rows whose draw is from one of the other candidates' answers.
        """
        kept = tuple(
            row
            for row in self.rows
            if not row.draw or row.draw.candidate == candidate or row.draw.candidate not in others
        )
        return replace(self, rows=kept) if kept else None

    def of_benchmark(self, name: str) -> list[LabelledRow]:
        """The rows that may be of a benchmark; rows without a draw may be of any."""
        return [row for row in self.rows if row.draw is None or row.draw.benchmark == name]

    def require_prompts(self, prompts: Iterable[Prompt], run: str) -> None:
        """Raise CalibrationError if a row without a draw is of no prompt of a run."""
        originals = [each.original for each in prompts]
        known = {plain(text) for each in originals for text in (each.transcript, each.request)}
        lost = [row for row in self.rows if not row.draw and row.texts[0] not in known]
        self.require_none(lost, run)

    def find(self, benchmark: str, records: Sequence[Record], run: str) -> BenchmarkLabels:
        """The labels of a benchmark's records.

        Args:
            records: all of the benchmark's.
            run: this run, for messages.

        Raises:
            CalibrationError: a row matches no answer.
        """
        rows, index = self.of_benchmark(benchmark), self._index(benchmark, records)
        self.require_none(_unmatched(rows, index), run)
        labels: dict[Sample, Label] = {}
        draws: dict[Draw | None, set[str]] = {}
        for row in rows:
            found = index.get(row.answer, [])
            labels |= dict.fromkeys(found, row.label)
            draws.setdefault(row.draw, set()).update(prompt for prompt, _ in found)
        answers: dict[str, set[int]] = {}
        for record in filter(is_answered, records):
            answers.setdefault(record.prompt.id, set()).add(record.sample)
        return BenchmarkLabels(
            labels,
            {prompt: frozenset(samples) for prompt, samples in answers.items()},
            {draw: frozenset(prompts) for draw, prompts in draws.items()},
        )

    def unmatched(self, benchmark: str, records: Sequence[Record]) -> list[LabelledRow]:
        """The rows of a benchmark that match none of these answers.

        A row without a draw is of the benchmarks that have its prompt.
        """
        return _unmatched(self.of_benchmark(benchmark), self._index(benchmark, records))

    def require_none(self, unmatched: Sequence[LabelledRow], run: str) -> None:
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

    def _index(self, benchmark: str, records: Iterable[Record]) -> Index:
        """Answers by key and, where a row needs them, by plain texts of prompt and answer."""
        found: dict[str | tuple[str, str], list[Sample]] = {}
        by_text = any(row.draw is None for row in self.rows)
        for record in filter(is_answered, records):
            keys: list[str | tuple[str, str]] = [answer_key(benchmark, record)]
            if by_text and record.completion:
                shown, completion = as_judged(record.prompt, record.completion)
                text = plain(completion.text)
                prompts = {shown.transcript, shown.request}
                keys += [(plain(prompt), text) for prompt in prompts]
            for key in keys:
                found.setdefault(key, []).append((record.prompt.id, record.sample))
        return found


def _unmatched(rows: Iterable[LabelledRow], index: Index) -> list[LabelledRow]:
    prompts = {key[0] for key in index if isinstance(key, tuple)}
    return [
        row for row in rows if row.answer not in index and (row.draw or row.texts[0] in prompts)
    ]


def read_labels(paths: Sequence[Path], allow_undrawn: bool = False) -> HumanLabels:
    """Read human labels of a run's answers.

    Args:
        allow_undrawn: see ``label_sheet.read``.

    Raises:
        CalibrationError: a label is unknown, one answer has two labels, a row names no draw, or
            there are no labels.
        DataError: a file is not such a table.
    """
    rows = [row for path in paths for row in label_sheet.read(path, allow_undrawn)]
    first: dict[str | tuple[str, str], LabelledRow] = {}
    clashes = [row for row in rows if first.setdefault(row.answer, row).label is not row.label]
    if clashes:
        one, other = first[clashes[0].answer], clashes[0]
        raise CalibrationError(
            f"{other.where}: agree on one label: {one.where} labels the same answer {one.label}, "
            f"this row {other.label}; {len(clashes)} rows contradict others"
        )
    return HumanLabels(tuple(paths), tuple(rows))
