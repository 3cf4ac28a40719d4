"""The benchmarks of ``tabular.toml``; that file says where each comes from, and its licence."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

from refusal_checks.benchmarks.benchmark import Benchmark
from refusal_checks.benchmarks.pinned import PinnedFile
from refusal_checks.benchmarks.table_file import table_benchmark
from refusal_checks.core.prompts import Kind


def _read(path: Path) -> Iterator[Benchmark]:
    for common in tomllib.loads(path.read_text(encoding="utf-8"))["file"]:
        revision = common.pop("revision")
        file = PinnedFile(
            path=common.pop("path"),
            url=common.pop("url").format(revision=revision),
            revision=revision,
            sha256=common.pop("sha256"),
        )
        for name, own in common.pop("benchmarks").items():
            yield table_benchmark(
                name, Kind(own.pop("kind")), file=file, **common, **own
            )


BENCHMARKS = tuple(_read(Path(__file__).with_name("tabular.toml")))
