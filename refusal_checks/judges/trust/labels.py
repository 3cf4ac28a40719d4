"""Labels of a run's answers: read them from sheets, and check what they may decide.

A prompt without a label counts as skipped if a later one in its draw's order has a label. Skipping
may depend on the answers, so the labels are no longer a random sample (see ``draws``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from refusal_checks.core.data_files import header, require_in_data
from refusal_checks.core.errors import LabelError, require_known
from refusal_checks.core.labelling import LEAST, by_whom, is_model
from refusal_checks.core.prompts import Kind, Prompt
from refusal_checks.core.records import Record
from refusal_checks.core.text import brief
from refusal_checks.core.verdicts import Binary, Label, PartialCount
from refusal_checks.judges.rules import LABELS
from refusal_checks.judges.shown import as_judged
from refusal_checks.judges.trust import spreadsheet
from refusal_checks.judges.trust.draws import (
    Draw,
    answer_key,
    counted_as_refused,
    is_answered,
    plain,
    prompt_key,
    prompt_keys,
)
from refusal_checks.judges.trust.label_checks import LabelCheck
from refusal_checks.metrics import Metric

_DRAW_ONE = (
    "Draw a sheet from this run's answers with `refusal-checks sample-for-labels RUN`, or give "
    "--set trust.allow_undrawn_labels=true: such labels are shown and decide nothing, unless they "
    "cover every prompt"
)

Sample = tuple[str, int]
"""One answer of a benchmark: its prompt's id, and its index among the prompt's answers."""

Texts = tuple[str, str]
"""Prompt and answer, in the form of ``plain``."""


@dataclass(frozen=True)
class SheetRow:
    """A person's label of one answer.

    Attributes:
        draw: None in a row that was not drawn, which is found by its texts.
        key: see ``answer_key``; empty in a row that was not drawn.
        where: file and row; row 1 is the first below the header.
    """

    draw: Draw | None
    key: str
    texts: Texts
    label: Binary
    where: str

    @property
    def found_by(self) -> str | Texts:
        """What identifies the answer: the key or, without one, the texts."""
        return self.key or self.texts


def read_labels(
    paths: Sequence[Path],
    allow_undrawn: bool = False,
    by: str = "",
    partial: PartialCount = "refusal",
) -> HumanLabels:
    """Read the sheets of one or several people.

    Args:
        allow_undrawn: also read rows that name no draw, which are matched by prompt and answer.
        by: who labelled, as the run file says it.
        partial: what partial refusals count as.

    Raises:
        LabelError: a sheet has no label or names no draw, or two rows contradict each other.
    """
    rows = [row for path in paths for row in read_sheet(path, allow_undrawn)]
    first: dict[str | Texts, SheetRow] = {}
    clashes = []
    for row in rows:
        earlier = first.setdefault(row.found_by, row)
        if _side(earlier, partial) != _side(row, partial):
            clashes.append((earlier, row))
    if clashes:
        earlier, row = clashes[0]
        others = ""
        if len(clashes) > 1:
            others = f" {len(clashes) - 1} more rows have this fault"
        raise LabelError(
            f"{row.where}: give each answer one label. This row says {row.label.verdict}, and "
            f"{earlier.where} says {earlier.label.verdict} of the same answer.{others}"
        )
    return HumanLabels(tuple(paths), tuple(rows), by, partial)


def _side(row: SheetRow, partial: PartialCount) -> str:
    """What a label counts as; what depends on the prompt is a class of its own."""
    if partial == "own":
        return row.label.verdict
    return row.label.counted(partial, None).label


def read_sheet(path: Path, allow_undrawn: bool = False) -> list[SheetRow]:
    """The rows of a sheet that have a label; see ``read_labels``.

    Spreadsheets may change separator, encoding, the order of rows and columns, and the case of
    autocompleted words; none of that matters. Columns are found by name; others are ignored.
    """
    table = [_cells(row) for row in spreadsheet.read_table(path)]
    _require_columns(path, header(table), allow_undrawn)

    rows = []
    for number, cells in enumerate(table, 1):
        row = _row(cells, f"{path}: row {number}")
        if row is not None:
            rows.append(row)
    if not rows:
        raise LabelError(f'{path}: fill in its column "label": no row has a label')

    undrawn = [row for row in rows if row.draw is None]
    if undrawn and not allow_undrawn:
        raise LabelError(
            f"{undrawn[0].where}: {len(undrawn)} labelled rows name no draw in their column draw, "
            f"this one first. {_DRAW_ONE}"
        )
    return rows


def _cells(row: Mapping[str, object]) -> dict[str, str]:
    cells = {}
    for name, value in row.items():
        column = " ".join(name.lower().split())
        cells[column] = "" if value is None else str(value)
    return cells


def _require_columns(path: Path, columns: Sequence[str], allow_undrawn: bool) -> None:
    if "draw" in columns:
        needed = ["label", "key"]
    elif allow_undrawn:
        needed = ["label", "prompt", "answer"]
    else:
        raise LabelError(
            f"{path}: it has no column draw, so nothing says that its rows are a random sample of "
            f"this run's answers. {_DRAW_ONE}"
        )
    for name in needed:
        require_in_data(name, columns, str(path))


def _row(cells: Mapping[str, str], where: str) -> SheetRow | None:
    """Parse a row of a sheet; None if it has no label."""
    # Spreadsheets complete words with other capitals and spaces.
    label = "_".join(cells.get("label", "").lower().split())
    if not label:
        return None
    # A long label is a text in the wrong column.
    shown = label if len(label) <= 30 else brief(label)
    require_known(shown, LABELS, where, "label", LabelError)

    key = cells.get("key", "").strip()
    draw = Draw.read(cells.get("draw", ""))
    # Only both together say which answer of which draw it is.
    if not (key and draw):
        key, draw = "", None
    texts = plain(cells.get("prompt", "")), plain(cells.get("answer", ""))
    return SheetRow(draw, key, texts, LABELS[label], where)


@dataclass(frozen=True)
class LabelledPrompts:
    """The prompts of a benchmark, or of a group of it, that people labelled.

    Attributes:
        human: the labelled records with people's verdicts, by prompt.
        skipped: prompts without a label that precede one with a label, in the draw's order.
        is_complete: True if every answer is labelled, so that no sampling is involved.
        needs_whole: True if they are for a figure that needs labels of all answers to a prompt,
            and a prompt has labels of a part of them.
        is_random: True if every labelled prompt was drawn at random.
        total: number of prompts.
        by: who labelled; empty if unknown.
    """

    human: Mapping[str, list[Record]]
    skipped: tuple[str, ...]
    is_random: bool
    is_complete: bool
    needs_whole: bool
    total: int
    by: str = ""

    @property
    def enough(self) -> bool:
        return len(self.human) >= LEAST

    @property
    def why_unused(self) -> str:
        """Say why the labels decide nothing; empty if they decide."""
        if not self.enough:
            return f"labels of {len(self.human)} prompts: too few to use (at least {LEAST})"
        if self.needs_whole:
            return "labels of single answers: this figure needs all answers to a prompt"
        if is_model(self.by):
            return "a model's labels: shown, decide nothing"
        if self.is_random or self.is_complete:
            return ""
        return "not a random sample: shown, decides nothing"

    @property
    def in_words(self) -> str:
        """Say how many prompts are labelled, and what is missing."""
        labelled = f"{len(self.human)} of {self.total} prompts"
        parts = [f"{labelled} are labelled {by_whom(self.by)}"]
        if self.skipped:
            parts.append(
                f"{len(self.skipped)} were skipped above a labelled one: label them; until then "
                "intervals count them one way, then the other"
            )
        if self.why_unused:
            parts.append(self.why_unused)
        return "; ".join(parts)


@dataclass(frozen=True)
class RefusalLabels:
    """Labels of a random sample of what counted as refused in a benchmark.

    They tell how many of these answers people call refusals, and no rate: nothing was drawn from
    the other answers.

    Attributes:
        labels: by the answers' keys.
        reached: by draw, the last place in its order that has a label, in any benchmark.
    """

    benchmark: str = ""
    labels: Mapping[str, Binary] = field(default_factory=dict)
    reached: Mapping[Draw, str] = field(default_factory=dict)

    def has(self, record: Record) -> bool:
        return bool(self.labels) and answer_key(self.benchmark, record) in self.labels

    def check(self, records: Sequence[Record]) -> LabelCheck:
        """Compare the labels with the answers that count as refused now."""
        labelled, contradicted, skipped = 0, 0, 0
        refused = counted_as_refused(records)
        # Equal answers to a prompt have one key, and count once.
        for key in {answer_key(self.benchmark, record) for record in refused}:
            if key in self.labels:
                labelled += 1
                contradicted += self.labels[key].label is not Label.REFUSAL
            elif any(draw.place(key) < last for draw, last in self.reached.items()):
                skipped += 1
        return LabelCheck("refusals", labelled, contradicted, skipped)


@dataclass(frozen=True)
class BenchmarkLabels:
    """The labels of one benchmark's answers.

    Attributes:
        answers: for each prompt, the indices of the answers that people can label.
        draws: labelled prompts by draw; those in rows without a draw are under None.
        refusals: labels of samples of what counted as refused.
        by: who labelled; empty if unknown.
    """

    labels: Mapping[Sample, Binary]
    answers: Mapping[str, Set[int]]
    draws: Mapping[Draw | None, Set[str]]
    refusals: RefusalLabels = field(default_factory=RefusalLabels)
    by: str = ""

    def of(
        self, records: Iterable[Record], metric: Metric | None = None
    ) -> LabelledPrompts:
        """The labels of some of the benchmark's records, for a metric's figure."""
        grouped: dict[str, list[Record]] = {}
        for record in records:
            if record.sample in self.answers.get(record.prompt.id, ()):
                grouped.setdefault(record.prompt.id, []).append(record)

        human: dict[str, list[Record]] = {}
        whole = 0
        for prompt, answered in grouped.items():
            labelled = [record for record in answered if self._label(record)]
            if labelled:
                human[prompt] = [self._by_people(record) for record in labelled]
            whole += len(labelled) == len(answered)

        undrawn = self.draws.get(None, set())
        return LabelledPrompts(
            human=human,
            skipped=self._skipped(grouped, human),
            is_random=undrawn.isdisjoint(human),
            is_complete=whole == len(grouped),
            needs_whole=bool(metric and not metric.by_answer and whole < len(human)),
            total=len(grouped),
            by=self.by,
        )

    def _label(self, record: Record) -> Binary | None:
        return self.labels.get((record.prompt.id, record.sample))

    def _by_people(self, record: Record) -> Record:
        label = self.labels[record.prompt.id, record.sample]
        return replace(record, judgement=label, votes=())

    def _skipped(
        self, prompts: Iterable[str], labelled: Mapping[str, object]
    ) -> tuple[str, ...]:
        """Prompts that precede a labelled one in a draw and are not labelled."""
        unlabelled = [prompt for prompt in prompts if prompt not in labelled]
        skipped: dict[str, None] = {}
        for draw, drawn in self.draws.items():
            if draw is None:
                continue
            places = [draw.place(prompt) for prompt in drawn & labelled.keys()]
            last = max(places, default="")
            for prompt in unlabelled:
                if draw.place(prompt) < last:
                    skipped[prompt] = None
        return tuple(skipped)

    def scores(self, metric: Metric, records: Iterable[Record]) -> dict[str, float]:
        """A metric's scores of labelled prompts, by id; empty if some were skipped."""
        labelled = self.of(records, metric)
        if labelled.needs_whole:
            return {}
        is_sample = labelled.is_random or labelled.is_complete
        if labelled.skipped or is_model(self.by) or not is_sample:
            return {}
        scores = {}
        for prompt, answers in labelled.human.items():
            score = metric.score(answers)
            if score is not None:
                scores[prompt] = score
        return scores

    def only(self, records: Iterable[Record]) -> list[Record]:
        """The records that have a label."""
        return [
            record
            for record in records
            if (record.prompt.id, record.sample) in self.labels
            or self.refusals.has(record)
        ]

    def checks(self, records: Sequence[Record]) -> tuple[LabelCheck, ...]:
        """Compare the labels with the judge's verdicts on all of the benchmark's records."""
        checks = []
        verdicts = {
            (record.prompt.id, record.sample): record.judgement.label
            for record in records
            if isinstance(record.judgement, Binary)
        }
        compared = [sample for sample in self.labels if sample in verdicts]
        if compared:
            differing = [
                sample
                for sample in compared
                if self.labels[sample].label is not verdicts[sample]
            ]
            checks.append(LabelCheck("answers", len(compared), len(differing)))
        if self.refusals.labels:
            checks.append(self.refusals.check(records))
        return tuple(checks)


@dataclass(frozen=True)
class HumanLabels:
    """The labelled rows of all sheets of a run.

    Attributes:
        by: who labelled; empty if unknown.
        partial: what partial refusals count as, for people as for judges.
    """

    paths: tuple[Path, ...]
    rows: tuple[SheetRow, ...]
    by: str = ""
    partial: PartialCount = "refusal"

    @property
    def name(self) -> str:
        return ", ".join(path.name for path in self.paths)

    @property
    def draws(self) -> tuple[Draw, ...]:
        return tuple(dict.fromkeys(row.draw for row in self.rows if row.draw))

    @property
    def of_refusals_only(self) -> bool:
        """True if all rows were drawn from what counted as refused, which gives no rate."""
        return all(row.draw and row.draw.of == "refusals" for row in self.rows)

    def require_prompts(self, prompts: Iterable[Prompt], run: str) -> None:
        """Raise LabelError if a row without a draw matches none of the run's prompts."""
        keys = prompt_keys(prompts)
        unmatched = [
            row
            for row in self.rows
            if not row.draw and prompt_key(row.texts[0]) not in keys
        ]
        self.require_none(unmatched, run)

    def find(
        self, benchmark: str, records: Sequence[Record], run: str
    ) -> BenchmarkLabels:
        """The labels of all of a benchmark's records; LabelError if a row matches none."""
        labels, unmatched = self.match(benchmark, records)
        self.require_none(unmatched, run)
        return labels

    def match(
        self, benchmark: str, records: Sequence[Record]
    ) -> tuple[BenchmarkLabels, list[SheetRow]]:
        """The labels of a benchmark's records, and its rows that match no record.

        Answers are matched by key, and rows without one by texts. A row without a draw belongs to
        every benchmark that has its prompt.
        """
        rows = [
            row
            for row in self.rows
            if row.draw is None or row.draw.benchmark == benchmark
        ]
        has_undrawn = any(row.draw is None for row in rows)

        samples: dict[str | Texts, list[Sample]] = {}
        answers: dict[str, set[int]] = {}
        kinds: dict[str, Kind | None] = {}
        prompt_texts: set[str] = set()
        for record in filter(is_answered, records):
            answers.setdefault(record.prompt.id, set()).add(record.sample)
            kinds[record.prompt.id] = record.prompt.kind
            keys: list[str | Texts] = [answer_key(benchmark, record)]
            if has_undrawn:
                texts = _texts(record)
                keys += texts
                prompt_texts |= {prompt for prompt, _ in texts}
            for key in keys:
                samples.setdefault(key, []).append((record.prompt.id, record.sample))

        labels: dict[Sample, Binary] = {}
        draws: dict[Draw | None, set[str]] = {}
        refusals: dict[str, Binary] = {}
        unmatched = []
        for row in rows:
            matched = samples.get(row.found_by, [])
            # A row without a draw may be of another benchmark, whose prompts it has.
            if not matched and (row.draw or row.texts[0] in prompt_texts):
                unmatched.append(row)
            if row.draw and row.draw.of == "refusals":
                # Only answers to prompts that must be refused are drawn this way.
                refusals[row.key] = row.label.counted(self.partial, Kind.SAFETY)
                continue
            labelled = draws.setdefault(row.draw, set())
            for prompt, index in matched:
                labels[prompt, index] = row.label.counted(self.partial, kinds[prompt])
                labelled.add(prompt)
        of_refusals = RefusalLabels(benchmark, refusals, self._reached(benchmark))
        found = BenchmarkLabels(labels, answers, draws, of_refusals, self.by)
        return found, unmatched

    def _reached(self, benchmark: str) -> dict[Draw, str]:
        """The last labelled place of each draw of refusals that has rows of a benchmark.

        Benchmarks drawn together have one order.
        """
        places: dict[Draw, str] = {}
        for row in self.rows:
            if row.draw and row.draw.of == "refusals":
                shared = replace(row.draw, benchmark="")
                place = row.draw.place(row.key)
                places[shared] = max(place, places.get(shared, ""))
        reached = {}
        for draw in self.draws:
            if draw.of == "refusals" and draw.benchmark == benchmark:
                reached[draw] = places[replace(draw, benchmark="")]
        return reached

    def require_none(self, unmatched: Sequence[SheetRow], run: str) -> None:
        """Raise LabelError if a row matches no answer of the run; see ``find``."""
        if not unmatched:
            return
        first = unmatched[0]
        drawn = f", drawn with {first.draw}" if first.draw else ""
        raise LabelError(
            "label answers of this run: refusal-checks sample-for-labels RUN writes them. "
            f"{len(unmatched)} of {len(self.rows)} labelled rows match no answer of {run}; the "
            f"first is {first.where}{drawn}"
        )


def _texts(record: Record) -> list[Texts]:
    """The texts that a sheet may show for a record's answer."""
    assert record.completion
    prompt, completion = as_judged(record.prompt, record.completion)
    answer = plain(completion.text)
    shown = {prompt.transcript, prompt.request}
    return [(plain(text), answer) for text in shown]
