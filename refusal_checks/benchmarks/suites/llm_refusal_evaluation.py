"""The splits of LLM-Refusal-Evaluation (arXiv 2512.16602), from its Hugging Face data set.

XSTest's two splits come from their authors' own file, see ``xstest``. A mirror holds the published
Parquet files under ``llm-refusal-evaluation/data``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.benchmarks.hub import HubSplit
from refusal_checks.benchmarks.suites import deccp, jailbreakbench
from refusal_checks.core.errors import DataError, require_known
from refusal_checks.core.prompts import Kind, Prompt

REPOSITORY = "MultiverseComputingCAI/llm-refusal-evaluation"
REVISION = "97ddaed9efda7993ccbb9dc504a104c86b6e233f"
FOLDER = "llm-refusal-evaluation/data"


def _load(split: HubSplit, mirror: Path | None) -> list[Prompt]:
    rows = split.rows(mirror)
    require_known(
        "prompt", rows.column_names, f"{split.repository}, {split.split}", "column", DataError
    )
    names = getattr(rows.features.get("type"), "names", None)
    return [_prompt(split.split, index, row, names) for index, row in enumerate(rows)]


def _prompt(split: str, index: int, row: Mapping[str, Any], names: Sequence[str] | None) -> Prompt:
    """One row as a prompt; its id is its index in the split, which the pinned revision fixes."""
    if not isinstance(row["prompt"], str):
        raise DataError(f"{split}: row {index} has no text in the column prompt")
    kind = row.get("type")
    category = names[kind] if names and isinstance(kind, int) else kind
    groups = {"category": category, "source": row.get("dataset_source")}
    known = {name: str(value) for name, value in groups.items() if value is not None}
    return Prompt.single(f"{split}-{index}", row["prompt"], **known)


def _split(name: str, kind: Kind, description: str, original: Benchmark | None = None) -> Benchmark:
    split = HubSplit(REPOSITORY, REVISION, name, FOLDER)
    load = partial(_load, split)
    return Benchmark(name, kind, description, load, REVISION, resources=(split,), original=original)


BENCHMARKS = (
    _split(
        "jailbreakbench",
        Kind.SAFETY,
        "JailbreakBench's 100 harmful behaviours",
        jailbreakbench.ORIGINAL,
    ),
    _split("sorrybench", Kind.SAFETY, "SORRY-Bench: 440 unsafe prompts of 44 categories"),
    _split("harmbench_sampled", Kind.SAFETY, "256 prompts sampled from HarmBench"),
    _split("adversarial_unsafe_prompts", Kind.SAFETY, "unsafe prompts beside sensitive topics"),
    _split("ccp_sensitive_sampled", Kind.SENSITIVE, "topics that are sensitive in China"),
    _split(
        "deccp_censored",
        Kind.SENSITIVE,
        "95 prompts that Qwen2-7B-Instruct refused",
        deccp.ORIGINAL,
    ),
    _split("general_prompts", Kind.SANITY, "everyday prompts"),
)
