"""Judges against human labels: JSON for tools, Markdown for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

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
_HEADER = ("", "n", "accuracy", "kappa", "Matthews", "sensitivity", "specificity", "invalid")
_SCORES = ("", "n", "Kendall", "Spearman", "Pearson", "equal", "invalid")


def to_json(measured: Sequence[MeasuredJudge]) -> list[dict[str, Any]]:
    """All figures and all disagreements, one entry per judge."""
    return [
        {
            "judge": judge.judge.model_dump(),
            "overall": _figures(judge.overall),
            "by_candidate": _all(judge.by_candidate),
            "by_type": _all(judge.by_type),
            "disagreements": [
                {name: getattr(answer, name) for name in _SHOWN} for answer in judge.disagreements
            ],
        }
        for judge in measured
    ]


def _all(figures: Mapping[str, Figures]) -> dict[str, Any]:
    return {name: _figures(part) for name, part in figures.items()}


def _figures(figures: Figures) -> dict[str, Any]:
    if isinstance(figures, Correlations):
        return asdict(figures)
    found = asdict(figures)
    counts = found.pop("counts")
    if figures.partial_called_refusal is None:
        del found["partial_called_refusal"]
    cells = [
        {"human": human, "judge": judge, "answers": count}
        for (human, judge), count in sorted(counts.items())
    ]
    return {**found, "confusion": cells}


def to_markdown(measured: Sequence[MeasuredJudge], disagreements: int = 20) -> Iterator[str]:
    """The lines of a page: judges side by side, then each by candidate and by type.

    Args:
        disagreements: most to show per judge.
    """
    yield "# Judges against human labels"
    yield ""
    yield from _table({_name(judge): judge.overall for judge in measured})
    for judge in measured:
        yield from ("", f"## {_name(judge)}")
        if isinstance(judge.overall, Confusion):
            yield from ("", *_confusion(judge.overall))
        for part, figures in (("candidate", judge.by_candidate), ("type", judge.by_type)):
            if len(figures) > 1:
                shown = {escape(name, 60): figure for name, figure in figures.items()}
                yield from ("", f"By {part}:", "", *_table(shown))
        yield from _disagreements(judge, disagreements)


def _name(judge: MeasuredJudge) -> str:
    return escape(judge.judge.name, 100)


def _table(rows: Mapping[str, Confusion | Correlations]) -> Iterator[str]:
    scores = any(isinstance(figures, Correlations) for figures in rows.values())
    shown = ([name, *cells(figures)] for name, figures in rows.items())
    return table(_SCORES if scores else _HEADER, shown)


def cells(figures: Figures) -> list[str]:
    """One row's figures."""
    if isinstance(figures, Correlations):
        ranks = (figures.kendall, figures.spearman, figures.pearson)
        return [str(figures.n), *map(_number, ranks), _number(figures.exact), str(figures.invalid)]
    return [
        str(figures.n),
        _number(figures.accuracy.value if figures.accuracy else None),
        _number(figures.kappa),
        _number(figures.matthews),
        _span(figures.sensitivity),
        _span(figures.specificity),
        str(figures.invalid),
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _span(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    return f"{estimate.value:.3f} [{estimate.lower:.3f}, {estimate.upper:.3f}]"


def _confusion(figures: Confusion) -> Iterator[str]:
    counts = figures.counts
    used = {name for pair in counts for name in pair} | {REFUSAL}
    names = [name for name in CLASSES if name in used]
    rows = ([human, *(str(counts.get((human, judge), 0)) for judge in names)] for human in names)
    return table(["people \\ judge", *names], rows)


def _disagreements(judge: MeasuredJudge, most: int) -> Iterator[str]:
    disagreements = judge.disagreements
    if not disagreements or not most:
        return
    yield from ("", f"Disagreements, {min(most, len(disagreements))} of {len(disagreements)}:", "")
    for each in disagreements[:most]:
        where = escape(f"{each.candidate} {each.id} {each.type}", 120)
        yield f"- {where}: people {each.human}, judge {each.judge}"
        yield f"  - prompt: {escape(each.prompt)}"
        yield f"  - answer: {escape(each.answer)}"
        if each.rationale:
            yield f"  - rationale: {escape(each.rationale)}"
