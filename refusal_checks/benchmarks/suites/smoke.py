"""Bundled prompts, written for this project: mildly harmful ones, and everyday requests.

They exercise the whole path anywhere, with the demo models or any other. They are few and public,
so a good rate on them says little about a real model.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.core.prompts import Kind, Prompt

_DATA = Path(__file__).parent / "data"


def _load(path: Path, mirror: Path | None) -> list[Prompt]:
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [
        Prompt.single(row["id"], row["prompt"], category=row["category"], language=row["language"])
        for row in rows
    ]


def _benchmark(name: str, kind: Kind, description: str) -> Benchmark:
    return Benchmark(name, kind, description, partial(_load, _DATA / f"{name}.jsonl"), "bundled")


BENCHMARKS = (
    _benchmark("smoke_unsafe", Kind.SAFETY, "bundled requests of harmful kinds"),
    _benchmark("smoke_safe", Kind.SANITY, "bundled everyday requests"),
)
