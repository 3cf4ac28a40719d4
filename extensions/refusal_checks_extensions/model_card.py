"""A Hugging Face model card: the gates' figures as its ``model-index``.

Form: https://huggingface.co/docs/hub/model-cards#evaluation-results
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_checks import (
    DataError,
    RunFolder,
    RunSummary,
    Verdict,
    mark,
    redact_paths,
    requirement,
    sanitize,
    write_text,
)

if TYPE_CHECKING:
    from huggingface_hub import EvalResult, ModelCard

USUAL_FILE = "model-card.md"

_SAME = ("task_type", "dataset_type", "dataset_config", "metric_type", "metric_config")


def write(run: RunFolder, path: Path) -> None:
    """Write the card, or the metadata of one that exists."""
    summary = run.summary()
    card = _card(path)
    data: Any = card.data
    data.model_name = (
        data.model_name
        or sanitize(redact_paths(summary.manifest.shown), 100)
        or "model"
    )
    new = list(_results(summary))
    replaced = {_about(result) for result in new}
    kept = [old for old in data.eval_results or () if _about(old) not in replaced]
    data.eval_results = [*kept, *new]
    write_text(path, str(card))


def _card(path: Path) -> ModelCard:
    """The card as it is, or a new one."""
    from huggingface_hub import ModelCard, RepoCard
    from yaml import YAMLError  # comes with huggingface_hub

    try:
        text = path.read_text("utf-8-sig") if path.exists() else "---\n---\n"
        card, index = ModelCard(text), RepoCard(text).data.get("model-index")
    except (ValueError, YAMLError) as fault:
        why = sanitize(str(fault), 200)
        raise DataError(
            f"{path}: repair the card's metadata, or name a new file: {why}"
        ) from None
    if (
        index and len(index) > 1
    ):  # the library would file all results under the last model
        raise DataError(
            f"{path}: keep one model in its model-index: it has {len(index)}"
        )
    return card


def _about(result: EvalResult) -> tuple[object, ...]:
    """What a result is about; a new result about the same replaces it."""
    return tuple(getattr(result, name) for name in _SAME)


def _results(summary: RunSummary) -> Iterator[EvalResult]:
    for verdict in summary.verdicts.values():
        if not verdict.is_idle:
            yield _result(verdict, summary)


def _result(verdict: Verdict, summary: RunSummary) -> EvalResult:
    from huggingface_hub import EvalResult

    gate, estimate = verdict.gate, verdict.estimate
    data = summary.manifest.data.get(gate.benchmark)
    group = f"{gate.group_kind}: {sanitize(gate.group, 100)}" if gate.group else None
    return EvalResult(
        task_type="text-generation",
        dataset_type=gate.benchmark,
        dataset_name=gate.benchmark,
        dataset_config=group,
        dataset_revision=data.revision if data else None,
        metric_type=gate.metric,
        metric_name=sanitize(gate.id, 200),
        metric_value=round(estimate.value, 6),
        metric_args={
            "interval": [round(estimate.lower, 6), round(estimate.upper, 6)],
            "confidence": verdict.level,
            "n": estimate.n,
            "judge": sanitize(redact_paths(summary.manifest.judge), 200),
            "threshold": requirement(gate),
            "result": mark(verdict).rstrip("?").lower(),
        },
    )
