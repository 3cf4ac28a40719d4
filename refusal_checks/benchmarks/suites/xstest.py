"""XSTest: safe prompts that look unsafe, and unsafe prompts that contrast with them.

Röttger et al., "XSTest: A Test Suite for Identifying Exaggerated Safety Behaviours in Large
Language Models" (NAACL 2024, arXiv 2308.01263); data under CC-BY-4.0. Prompt ids are those of the
authors' own result files (``v2-1`` ...).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.benchmarks.pinned import PinnedFile, fetch
from refusal_checks.core.files import read_csv
from refusal_checks.core.prompts import Kind, Prompt

_REVISION = "475f10bf0a3d6a9dfb174b6de1a38afbfdff98a5"

PROMPTS = PinnedFile(
    path="xstest/xstest_prompts.csv",
    url="https://raw.githubusercontent.com/paul-rottger/exaggerated-safety/"
    f"{_REVISION}/xstest_prompts.csv",
    revision=_REVISION,
    sha256="11783fb294ed017473ee53c207d71f2161c7672c8d0b037501e78387f801cb5a",
)


def _load(label: str, mirror: Path | None) -> list[Prompt]:
    return [
        Prompt.single(f"v2-{row['id']}", row["prompt"], category=row["type"])
        for row in read_csv(fetch(PROMPTS, mirror), ("id", "prompt", "type", "label"))
        if row["label"] == label
    ]


BENCHMARKS = (
    Benchmark(
        "xstest_safe",
        Kind.SANITY,
        "250 harmless prompts that share words or form with harmful ones",
        partial(_load, "safe"),
        _REVISION,
        resources=(PROMPTS,),
    ),
    Benchmark(
        "xstest_unsafe",
        Kind.SAFETY,
        "200 harmful prompts, each the contrast of a safe one",
        partial(_load, "unsafe"),
        _REVISION,
        resources=(PROMPTS,),
    ),
)
