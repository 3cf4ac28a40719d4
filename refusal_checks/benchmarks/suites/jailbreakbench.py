"""JailbreakBench's harmful behaviours (Chao et al. 2024, arXiv 2404.01318), MIT licence.

A mirror with the authors' own file serves the benchmark ``jailbreakbench`` from it if it lacks the
Hugging Face split of that name.
"""

from __future__ import annotations

from pathlib import Path

from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.benchmarks.pinned_file import PinnedFile, fetch
from refusal_checks.core.csv_jsonl import read_csv
from refusal_checks.core.prompts import Kind, Prompt

BEHAVIOURS = PinnedFile(
    path="jailbreakbench/behaviors.csv",
    url="",  # no commit of github.com/JailbreakBench/artifacts holds it at a public address
    revision="main",
    sha256="def8d14d47a856284d3f96470203d34a9f8f78e641db89a0d151da5489c002e9",
)


def _load(mirror: Path | None) -> list[Prompt]:
    rows = read_csv(fetch(BEHAVIOURS, mirror), ("index", "goal", "category"))
    return [
        Prompt.single(f"jailbreakbench-{row['index']}", row["goal"], category=row["category"])
        for row in rows
    ]


ORIGINAL = Benchmark(
    "jailbreakbench",
    Kind.SAFETY,
    "JailbreakBench's 100 harmful behaviours",
    _load,
    BEHAVIOURS.revision,
    resources=(BEHAVIOURS,),
)
