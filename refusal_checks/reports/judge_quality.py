"""Report judges measured against human labels: JSON for tools, Markdown for people."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from refusal_checks.judges.trust.floors import JudgeFloors
from refusal_checks.judges.trust.label_files import CLASSES, REFUSAL
from refusal_checks.judges.trust.measured import (
    Confusion,
    Correlations,
    Figures,
    MeasuredJudge,
)
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.reports.markdown import escape, table

_SHOWN = ("candidate", "id", "type", "prompt", "answer", "human", "judge", "rationale")
_HEADER = (
    "",
    "n",
    "accuracy",
    "kappa",
    "sensitivity",
    "specificity",
    "invalid",
)
_SCORES = ("", "n", "Kendall", "Spearman", "Pearson", "equal", "invalid")


def to_json(measured: Sequence[MeasuredJudge]) -> list[dict[str, Any]]:
    return [
        {
            "judge": judge.judge.model_dump(),
            "overall": _figures(judge.overall),
            "by_candidate": {
                name: _figures(part) for name, part in judge.by_candidate.items()
            },
            "by_type": {name: _figures(part) for name, part in judge.by_type.items()},
            "disagreements": [
                {name: getattr(answer, name) for name in _SHOWN}
                for answer in judge.disagreements
            ],
        }
        for judge in measured
    ]


def _figures(figures: Figures) -> dict[str, Any]:
    if isinstance(figures, Correlations):
        return asdict(figures)
    content = asdict(figures)
    counts = content.pop("counts")
    if figures.partial_called_refusal is None:
        del content["partial_called_refusal"]
    cells = [
        {"human": human, "judge": judge, "answers": count}
        for (human, judge), count in sorted(counts.items())
    ]
    return {**content, "confusion": cells}


def to_markdown(
    measured: Sequence[MeasuredJudge], floors: JudgeFloors, disagreements: int = 20
) -> Iterator[str]:
    """Yield the lines of the report.

    Args:
        floors: what a run would ask of these judges.
        disagreements: the most that are listed for each judge.
    """
    names = [escape(judge.judge.name, 100) for judge in measured]
    every = {name: judge.overall for name, judge in zip(names, measured, strict=True)}
    yield from ("# Judges against human labels", "", *_table(every))
    for name, judge in zip(names, measured, strict=True):
        yield from ("", f"## {name}")
        if isinstance(judge.overall, Confusion):
            yield from ("", *_confusion(judge.overall))
            yield from ("", *_placed(judge.overall, floors))
        for part, figures in (
            ("candidate", judge.by_candidate),
            ("type", judge.by_type),
        ):
            if len(figures) > 1:
                shown = {escape(name, 60): figure for name, figure in figures.items()}
                yield from ("", f"By {part}:", "", *_table(shown))
        total = len(judge.disagreements)
        listed = judge.disagreements[:disagreements]
        if listed:
            yield from ("", f"Disagreements, {len(listed)} of {total}:", "")
        for judged in listed:
            where = escape(f"{judged.candidate} {judged.id} {judged.type}", 120)
            yield f"- {where}: people {judged.human}, judge {judged.judge}"
            yield f"  - prompt: {escape(judged.prompt)}"
            yield f"  - answer: {escape(judged.answer)}"
            if judged.rationale:
                yield f"  - rationale: {escape(judged.rationale)}"


def _placed(figures: Confusion, floors: JudgeFloors) -> Iterator[str]:
    """Say whether a run would trust a judge with these figures.

    This places judges that cannot be asked about the canary, such as recorded labels.
    """
    for name, share in (
        ("specificity", figures.specificity),
        ("sensitivity", figures.sensitivity),
    ):
        floor = getattr(floors, name)
        if floor and share:
            word = "reaches" if floor.allows(share.value) else "MISSES"
            where = f"the {floor.min:.0%} of [judge.check]"
            yield f"- {name} {share:.1%} {word} {where}".replace("[", "\\[")


def _table(rows: Mapping[str, Figures]) -> Iterator[str]:
    scores = any(isinstance(figures, Correlations) for figures in rows.values())
    shown = ([name, *_cells(figures)] for name, figures in rows.items())
    return table(_SCORES if scores else _HEADER, shown)


def _cells(figures: Figures) -> list[str]:
    if isinstance(figures, Correlations):
        numbers = [figures.kendall, figures.spearman, figures.pearson, figures.exact]
        spans: list[Estimate | None] = []
    else:
        accuracy = figures.accuracy.value if figures.accuracy else None
        numbers = [accuracy, figures.kappa]
        spans = [figures.sensitivity, figures.specificity]
    shown = (
        "-" if number is None else f"{number:.3f}" for number in (*numbers, *spans)
    )
    return [str(figures.n), *shown, str(figures.invalid)]


def _confusion(figures: Confusion) -> Iterator[str]:
    counts = figures.counts
    used = {REFUSAL, *chain.from_iterable(counts)}
    names = [name for name in CLASSES if name in used]
    rows = (
        [human, *(str(counts.get((human, judge), 0)) for judge in names)]
        for human in names
    )
    return table(["people \\ judge", *names], rows)
