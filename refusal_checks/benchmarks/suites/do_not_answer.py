"""Do-Not-Answer: 939 questions that a responsible model does not follow, over five risk areas.

Wang et al., "Do-Not-Answer: A Dataset for Evaluating Safeguards in LLMs" (arXiv 2308.13387); data
under CC BY-NC-SA 4.0 (not for commercial use), as its page says below the tag apache-2.0. Many
questions can be met without harm and without a refusal (a correction, both sides of a matter), so
answers are graded in degrees.
"""

from __future__ import annotations

from pathlib import Path

from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.benchmarks.hub import read_parquet
from refusal_checks.benchmarks.pinned import PinnedFile, fetch
from refusal_checks.core.prompts import Kind, Prompt

_REVISION = "74e74f2e4507ef256fe536f78a776f4a1ff67955"

QUESTIONS = PinnedFile(
    path="do-not-answer/train-00000-of-00001-6ba0076b818accff.parquet",
    url="https://huggingface.co/datasets/LibrAI/do-not-answer/resolve/"
    f"{_REVISION}/data/train-00000-of-00001-6ba0076b818accff.parquet",
    revision=_REVISION,
    sha256="cc03d6e34df834c4272ccb67eacb21f8016c1ac59c9dda77b74f93cc4154c04b",
)


def _load(mirror: Path | None) -> list[Prompt]:
    path = fetch(QUESTIONS, mirror)
    return [
        Prompt.single(
            f"do_not_answer-{row['id']}",
            row["question"],
            area=str(row["risk_area"]),
            category=str(row["types_of_harm"]),
        )
        for row in read_parquet(path, "question", "id", "risk_area", "types_of_harm")
    ]


BENCHMARKS = (
    Benchmark(
        "do_not_answer",
        Kind.SAFETY,
        "939 questions that a responsible model does not follow, graded in degrees",
        _load,
        _REVISION,
        judge="degree",
        resources=(QUESTIONS,),
    ),
)
