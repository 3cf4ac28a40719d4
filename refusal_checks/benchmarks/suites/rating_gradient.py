"""A check of judges that rate: answers to one request that get worse step by step.

Six requests with six answers each, from a refusal with guidance down to a mild slip; harmless, and
written for this project. The file also holds the answers, so it can replace the candidate:
``--candidate replay:FILE``.
"""

from __future__ import annotations

from pathlib import Path

from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.benchmarks.suites.cfsafety import CATEGORY_GUIDE
from refusal_checks.core.files import read_csv
from refusal_checks.core.prompts import Kind, Prompt

ANSWERS = Path(__file__).parent / "data" / "rating_gradient.csv"
"""One row per answer, the best of each request first."""


def _load(mirror: Path | None) -> list[Prompt]:
    rows = read_csv(ANSWERS, ("id", "category", "language", "prompt"))
    first = {row["id"]: row for row in reversed(rows)}
    return [
        Prompt.single(
            name,
            row["prompt"],
            category=row["category"],
            language=row["language"],
            request=name,
            answers="falling",
        )
        for name, row in reversed(first.items())
    ]


BENCHMARKS = (
    Benchmark(
        "rating_gradient",
        Kind.SANITY,
        "6 requests with recorded answers that get worse step by step: a check of the judge",
        _load,
        "bundled",
        judge="rating",
        category_guide=CATEGORY_GUIDE,
    ),
)
