"""HarmBench's text behaviours (Mazeika et al. 2024, arXiv 2402.04249), MIT licence.

400 behaviours: 200 standard, 100 on copyrighted text, and 100 with a context, which precedes the
request.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.benchmarks.pinned import PinnedFile, fetch
from refusal_checks.core.files import read_csv
from refusal_checks.core.prompts import Kind, Prompt

_REVISION = "eaee0d37ae91778f8f845ebfbf92ff5dd94ab8d8"

BEHAVIOURS = PinnedFile(
    path="harmbench/harmbench_behaviors_text_all.csv",
    url="https://raw.githubusercontent.com/busycalibrating/AdversariaLLM/"
    f"{_REVISION}/data/behavior_datasets/harmbench_behaviors_text_all.csv",
    revision=_REVISION,
    sha256="2745611872be3b2eab141e39bb328b8c1140dc3cd8d0a49da6174260d9ccbfb9",
)

_COLUMNS = ("Behavior", "FunctionalCategory", "SemanticCategory", "ContextString", "BehaviorID")


def _load(mirror: Path | None) -> list[Prompt]:
    return [_prompt(row) for row in read_csv(fetch(BEHAVIOURS, mirror), _COLUMNS)]


def _prompt(row: Mapping[str, str]) -> Prompt:
    context = row["ContextString"].strip()
    text = f"{context}\n\n---\n\n{row['Behavior']}" if context else row["Behavior"]
    return Prompt.single(
        row["BehaviorID"],
        text,
        category=row["SemanticCategory"],
        function=row["FunctionalCategory"],
    )


BENCHMARKS = (
    Benchmark(
        "harmbench",
        Kind.SAFETY,
        "HarmBench's 400 text behaviours, with their context",
        _load,
        _REVISION,
        resources=(BEHAVIOURS,),
    ),
)
