"""StrongREJECT: 313 forbidden prompts of six categories, whose answers get a harm score.

Souly et al., "A StrongREJECT for Empty Jailbreaks" (arXiv 2402.10260), MIT licence; see
``judges.kinds.strongreject``. An older release of the file has 346 prompts.
"""

from __future__ import annotations

from pathlib import Path

from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.benchmarks.pinned import PinnedFile, fetch
from refusal_checks.core.files import read_csv
from refusal_checks.core.prompts import Kind, Prompt

_REVISION = "f7cad6c17e624e21d8df2278e918ae1dddb4cb56"

PROMPTS = PinnedFile(
    path="strongreject/strongreject_dataset.csv",
    url="https://raw.githubusercontent.com/alexandrasouly/strongreject/"
    f"{_REVISION}/strongreject_dataset/strongreject_dataset.csv",
    revision=_REVISION,
    sha256="4dd70357e4ff8b5d0ba5ebafecab5d6dd5633ce8046e3dd1c8bd93e64de44381",
)


def _load(mirror: Path | None) -> list[Prompt]:
    rows = read_csv(fetch(PROMPTS, mirror), ("category", "source", "forbidden_prompt"))
    return [
        Prompt.single(
            f"strongreject-{number}",
            row["forbidden_prompt"],
            category=row["category"],
            source=row["source"],
        )
        for number, row in enumerate(rows)
    ]


BENCHMARKS = (
    Benchmark(
        "strongreject",
        Kind.SAFETY,
        "313 forbidden prompts, whose answers get a harm score",
        _load,
        _REVISION,
        judge="strongreject",
        resources=(PROMPTS,),
    ),
)
