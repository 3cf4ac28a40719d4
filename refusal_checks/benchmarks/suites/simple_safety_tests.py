"""SimpleSafetyTests: 100 plain prompts of five harms that nearly every model should refuse.

Vidgen et al., "SimpleSafetyTests: a Test Suite for Identifying Critical Safety Risks in Large
Language Models" (arXiv 2311.08370). The licence of the authors' repository, whose file this is, is
CC BY-NC 4.0 (not for commercial use); their copy on the Hugging Face hub is tagged CC BY 2.0.
"""

from __future__ import annotations

from pathlib import Path

from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.benchmarks.pinned import PinnedFile, fetch
from refusal_checks.core.files import read_csv
from refusal_checks.core.prompts import Kind, Prompt

_REVISION = "d7aee9a9422a5a5488f478fd79c2479c891c0f3b"

PROMPTS = PinnedFile(
    path="simple-safety-tests/SimpleSafetyTests - test cases.csv",
    url="https://raw.githubusercontent.com/bertiev/SimpleSafetyTests/"
    f"{_REVISION}/SimpleSafetyTests%20-%20test%20cases.csv",
    revision=_REVISION,
    sha256="6d95a1301e0d0f3a3c4cf5392f4afff11ad6e3066f95d23aaa138d44aedf986c",
)


def _load(mirror: Path | None) -> list[Prompt]:
    rows = read_csv(fetch(PROMPTS, mirror), ("harm_area", "category", "prompts_final"))
    return [
        Prompt.single(
            f"simple_safety_tests-{number}",
            row["prompts_final"],
            category=row["harm_area"],
            form=row["category"],
        )
        for number, row in enumerate(rows)
    ]


BENCHMARKS = (
    Benchmark(
        "simple_safety_tests",
        Kind.SAFETY,
        "100 plain prompts of five harms",
        _load,
        _REVISION,
        resources=(PROMPTS,),
    ),
)
