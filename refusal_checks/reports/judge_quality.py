"""Judges against human labels: JSON for tools, Markdown for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from refusal_checks.judges.trust.confusion import CLASSES, PARTIAL, REFUSAL, Confusion, Correlations
from refusal_checks.judges.trust.measured import Figures, JudgedAnswer, MeasuredJudge
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.reports.markdown import escape, table

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
            "disagreements": [_disagreement(found) for found in judge.disagreements],
        }
        for judge in measured
    ]


def _all(figures: Mapping[str, Figures]) -> dict[str, Any]:
    return {name: _figures(found) for name, found in figures.items()}


def _figures(found: Figures) -> dict[str, Any]:
    if isinstance(found, Correlations):
        return asdict(found)
    partial = found.called_refusal(PARTIAL)
    return {
        "n": found.n,
        "invalid": found.invalid,
        "invalid_rate": _estimate(found.invalid_rate),
        "accuracy": _estimate(found.accuracy),
        "kappa": found.kappa,
        "matthews": found.matthews,
        "sensitivity": _estimate(found.sensitivity),
        "specificity": _estimate(found.specificity),
        **({"partial_called_refusal": _estimate(partial)} if partial else {}),
        "human_refusal_rate": found.rates[0] if found.n else None,
        "judge_refusal_rate": found.rates[1] if found.n else None,
        "confusion": [
            {"human": human, "judge": judge, "answers": count}
            for (human, judge), count in sorted(found.counts.items())
        ],
    }


def _estimate(found: Estimate | None) -> dict[str, float] | None:
    return None if found is None else asdict(found)


def _disagreement(found: JudgedAnswer) -> dict[str, Any]:
    answer = found.answer
    return {
        "candidate": found.candidate,
        "id": answer.id,
        "type": answer.type,
        "prompt": answer.prompt,
        "answer": answer.answer,
        "human": found.human,
        "judge": found.judge,
        "rationale": found.rationale,
    }


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
                shown = {escape(name, 60): found for name, found in figures.items()}
                yield from ("", f"By {part}:", "", *_table(shown))
        yield from _disagreements(judge, disagreements)


def _name(judge: MeasuredJudge) -> str:
    return escape(judge.judge.name, 100)


def _table(rows: Mapping[str, Confusion | Correlations]) -> Iterator[str]:
    scores = any(isinstance(found, Correlations) for found in rows.values())
    shown = ([name, *cells(found)] for name, found in rows.items())
    return table(_SCORES if scores else _HEADER, shown)


def cells(found: Figures) -> list[str]:
    """One row's figures."""
    if isinstance(found, Correlations):
        ranks = (found.kendall, found.spearman, found.pearson)
        return [str(found.n), *map(_number, ranks), _number(found.exact), str(found.invalid)]
    return [
        str(found.n),
        _number(found.accuracy.value if found.accuracy else None),
        _number(found.kappa),
        _number(found.matthews),
        _span(found.sensitivity),
        _span(found.specificity),
        str(found.invalid),
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _span(found: Estimate | None) -> str:
    if found is None:
        return "-"
    return f"{found.value:.3f} [{found.lower:.3f}, {found.upper:.3f}]"


def _confusion(found: Confusion) -> Iterator[str]:
    used = {name for pair in found.counts for name in pair} | {REFUSAL}
    names = [name for name in CLASSES if name in used]
    counts = (
        [human, *(str(found.counts.get((human, judge), 0)) for judge in names)] for human in names
    )
    return table(["people \\ judge", *names], counts)


def _disagreements(judge: MeasuredJudge, most: int) -> Iterator[str]:
    found = judge.disagreements
    if not found or not most:
        return
    yield from ("", f"Disagreements, {min(most, len(found))} of {len(found)}:", "")
    for judged in found[:most]:
        where = escape(f"{judged.candidate} {judged.answer.id} {judged.answer.type}", 120)
        yield f"- {where}: people {judged.human}, judge {judged.judge}"
        yield f"  - prompt: {escape(judged.answer.prompt)}"
        yield f"  - answer: {escape(judged.answer.answer)}"
        if judged.rationale:
            yield f"  - rationale: {escape(judged.rationale)}"
