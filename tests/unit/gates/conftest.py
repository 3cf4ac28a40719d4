"""Run files for tests: texts read with a few benchmarks of known ways of judging."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from refusal_checks.benchmarks.base import Benchmark
from refusal_checks.core.prompts import Kind
from refusal_checks.gates.thresholds import Thresholds, load
from tests.unit.conftest import Write

Read = Callable[..., Thresholds]

BENCHMARKS = {
    name: Benchmark(name, Kind.SAFETY, "", lambda mirror: [], "1", judge)
    for name, judge in {
        "xstest_safe": "refusal",
        "xstest_unsafe": "refusal",
        "smoke_unsafe": "refusal",
        "questions": "multiple_choice",
        "outdated": "refusals",
    }.items()
}

DAY = date(2026, 11, 22)


def cases(name: str) -> list[tuple[str, list[str]]]:
    """The sections of a file of cases beside this one: what each is called, and its cases."""
    sections = Path(__file__).with_name(name).read_text(encoding="utf-8").split("## ")[1:]
    split = (section.strip().split("\n\n") for section in sections)
    return [(name, found) for name, *found in split]


@pytest.fixture
def read_all(write: Write) -> Read:
    """Load run files of these texts, in order."""

    def load_texts(*texts: str) -> Thresholds:
        paths = [write(f"gates{number}.toml", text) for number, text in enumerate(texts)]
        return load(paths, BENCHMARKS, DAY)

    return load_texts


@pytest.fixture
def read(read_all: Read) -> Read:
    """As ``read_all``, without default gates."""

    def load_texts(*texts: str) -> Thresholds:
        found = read_all(*texts)
        return replace(found, gates=tuple(g for g in found.gates if g.source != "default gate"))

    return load_texts
