"""Run files for tests: texts read with a few benchmarks of known ways of judging."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from unittest.mock import patch

import pytest

from refusal_checks.benchmarks.benchmark import Benchmark
from refusal_checks.config import toml_file
from refusal_checks.config.benchmark_tables import SOURCE
from refusal_checks.config.layers import Layer
from refusal_checks.config.run_spec import RunSpec
from refusal_checks.core.prompts import Kind
from refusal_checks.gates.gate import Gate
from tests.unit.conftest import Write

Read = Callable[..., RunSpec]

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
    sections = (
        Path(__file__).with_name(name).read_text(encoding="utf-8").split("## ")[1:]
    )
    split = (section.strip().split("\n\n") for section in sections)
    return [(name, found) for name, *found in split]


@contextmanager
def known(benchmarks: Mapping[str, Benchmark]) -> Iterator[None]:
    """Read run files where only these benchmarks are known, on a certain day."""
    with (
        patch("refusal_checks.config.run_spec.discover", lambda: benchmarks),
        patch("refusal_checks.gates.gate.today", lambda: DAY),
    ):
        yield


def load(paths: Sequence[Path]) -> RunSpec:
    """Read run files, which may have no gate."""
    layers = [Layer(toml_file.read(path), str(path), path.parent) for path in paths]
    with known(BENCHMARKS):
        return RunSpec.from_layers(layers)


def written(spec: RunSpec) -> list[Gate]:
    """The gates that files write, without default gates."""
    return [gate for gate in spec.gates if gate.source != SOURCE]


@pytest.fixture
def read(write: Write) -> Read:
    """Read run files of these texts, in order."""

    def load_texts(*texts: str) -> RunSpec:
        paths = [
            write(f"gates{number}.toml", text) for number, text in enumerate(texts)
        ]
        return load(paths)

    return load_texts
