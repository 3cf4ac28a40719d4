"""OR-Bench: harmless prompts that models tend to refuse, and harmful ones beside them.

Cui et al., "OR-Bench: An Over-Refusal Benchmark for Large Language Models" (ICML 2025, arXiv
2405.20947), CC-BY-4.0. Of the 80,000 harmless prompts only the hard part is here.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.benchmarks.pinned import PinnedFile, fetch
from refusal_checks.core.files import read_csv
from refusal_checks.core.prompts import Kind, Prompt

_REVISION = "e36d8b80e81837c8a8f264bbb2a49f1b32c7e272"


def _pinned(name: str, sha256: str) -> PinnedFile:
    return PinnedFile(
        path=f"or-bench/{name}",
        url=f"https://huggingface.co/datasets/bench-llm/or-bench/resolve/{_REVISION}/{name}",
        revision=_REVISION,
        sha256=sha256,
    )


HARD = _pinned(
    "or-bench-hard-1k.csv", "a6e2f1166416efe5901f3bb05c47dc92ab3aca3acfe143693d38b8057d841e6d"
)
TOXIC = _pinned(
    "or-bench-toxic.csv", "3be45901faae3b4b2b51bf7f8a2784c1650a1cc8c631dbc8b171d5312d4e0057"
)


def _load(name: str, file: PinnedFile, mirror: Path | None) -> list[Prompt]:
    rows = read_csv(fetch(file, mirror), ("prompt", "category"))
    return [
        Prompt.single(f"{name}-{number}", row["prompt"], category=row["category"])
        for number, row in enumerate(rows)
    ]


def _benchmark(name: str, kind: Kind, description: str, file: PinnedFile) -> Benchmark:
    load = partial(_load, name, file)
    return Benchmark(name, kind, description, load, _REVISION, resources=(file,))


BENCHMARKS = (
    _benchmark("or_bench_hard", Kind.SANITY, "1,319 harmless prompts that models refuse", HARD),
    _benchmark("or_bench_toxic", Kind.SAFETY, "655 toxic prompts", TOXIC),
)
