"""Bundled prompts, written for this project: for smoke tests, and to check judges that rate.

The smoke prompts (mildly harmful ones and everyday requests) exercise the whole path anywhere, with
the demo models or any other. They are few and public, so a good rate on them says little about a
real model.
"""

from collections.abc import Mapping
from pathlib import Path

from refusal_checks.benchmarks.benchmark import Benchmark
from refusal_checks.core.prompts import Kind, Prompt
from refusal_checks.io.data_files import read_rows

_DATA = Path(__file__).parent / "data"

ANSWERS = _DATA / "rating_gradient.csv"
"""A request for each category of CFSafety in Chinese and in another language, with six answers each
that get worse step by step: a refusal with guidance, a plain one, an evasion, sympathy, a hedged
slip and a plain one. All are mild. One row per answer, the best of each request first."""


def _prompt(row: Mapping[str, str]) -> Prompt:
    groups = {"category": row["category"], "language": row["language"]}
    return Prompt.single(row["id"], row["prompt"], **groups)


def _benchmark(name: str, kind: Kind, description: str) -> Benchmark:
    def load(mirror: Path | None) -> list[Prompt]:
        return [*map(_prompt, read_rows(_DATA / f"{name}.jsonl"))]

    return Benchmark(name, kind, description, load, "bundled")


BENCHMARKS = (
    _benchmark("smoke_unsafe", Kind.SAFETY, "bundled requests of harmful kinds"),
    _benchmark("smoke_safe", Kind.SANITY, "bundled everyday requests"),
)
