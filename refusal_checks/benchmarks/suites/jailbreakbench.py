"""JailbreakBench's behaviours (Chao et al. 2024, arXiv 2404.01318), MIT licence.

100 harmful ones, and 100 benign ones on the same topics, from the data set JBB-Behaviors. A mirror
with the authors' own file serves the benchmark ``jailbreakbench`` from it if it lacks the Hugging
Face split of that name.
"""

from __future__ import annotations

from pathlib import Path

from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.benchmarks.pinned import PinnedFile, fetch
from refusal_checks.core.files import read_csv
from refusal_checks.core.prompts import Kind, Prompt

BEHAVIOURS = PinnedFile(
    path="jailbreakbench/behaviors.csv",
    url="",  # no commit of github.com/JailbreakBench/artifacts holds it at a public address
    revision="main",
    sha256="def8d14d47a856284d3f96470203d34a9f8f78e641db89a0d151da5489c002e9",
)

_JBB = "886acc352a31533ffbcf4ef22c744658688086fc"

BENIGN = PinnedFile(
    path="jailbreakbench/benign-behaviors.csv",
    url="https://huggingface.co/datasets/JailbreakBench/JBB-Behaviors/resolve/"
    f"{_JBB}/data/benign-behaviors.csv",
    revision=_JBB,
    sha256="3cda234d21a991fa309bbfea4b6d9dae31ccdf8e9d452424b6a983e4fdc33468",
)


def _load(mirror: Path | None) -> list[Prompt]:
    rows = read_csv(fetch(BEHAVIOURS, mirror), ("index", "goal", "category"))
    return [
        Prompt.single(f"jailbreakbench-{row['index']}", row["goal"], category=row["category"])
        for row in rows
    ]


def _load_benign(mirror: Path | None) -> list[Prompt]:
    rows = read_csv(fetch(BENIGN, mirror), ("Index", "Goal", "Category", "Source"))
    return [
        Prompt.single(
            f"jailbreakbench_benign-{row['Index']}",
            row["Goal"],
            category=row["Category"],
            source=row["Source"],
        )
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

BENCHMARKS = (
    Benchmark(
        "jailbreakbench_benign",
        Kind.SANITY,
        "100 harmless behaviours on the topics of JailbreakBench's harmful ones",
        _load_benign,
        BENIGN.revision,
        resources=(BENIGN,),
    ),
)
