"""Local mirrors of public data, and the index that tells if they have changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_checks.benchmarks.base import Benchmark, digest, load_prompts
from refusal_checks.core.errors import DataError
from refusal_checks.core.json_text import parse
from refusal_checks.core.prompts import Prompt

INDEX = "mirror.json"
"""The file in a mirror that lists what was pulled: revision, sha256 and number of prompts."""


@dataclass(frozen=True)
class MirrorEntry:
    """One benchmark of a mirror.

    Attributes:
        revision: the commit that was pulled.
        sha256: ``digest`` of its prompts.
    """

    revision: str
    sha256: str
    prompts: int


def read_index(mirror: Path) -> dict[str, MirrorEntry]:
    """The index of a mirror; empty if the mirror was filled by hand.

    Raises:
        DataError: the index cannot be read.
    """
    path = mirror / INDEX
    if not path.is_file():
        return {}
    try:
        entries = parse(path.read_bytes())
        return {name: MirrorEntry(**entry) for name, entry in entries.items()}
    except (OSError, ValueError, TypeError, AttributeError) as fault:
        raise DataError(f"{path}: not an index of a mirror: {fault}; pull the data again") from None


def load(benchmark: Benchmark, mirror: Path | None) -> tuple[Prompt, ...]:
    """The benchmark's prompts, also checked against the mirror's index if there is one.

    Raises:
        DataError: see ``load_prompts``; or the mirror has another revision or has changed.
    """
    entry = read_index(mirror).get(benchmark.name) if mirror else None
    if entry is None:
        return load_prompts(benchmark, mirror)
    where = f"the data mirror {mirror}: {benchmark.name}"
    if entry.revision != benchmark.revision:
        raise DataError(
            f"{where} has revision {entry.revision}, this package needs {benchmark.revision}; "
            f"run `refusal-checks data pull {mirror}` again"
        )
    prompts = load_prompts(benchmark, mirror)
    sha256 = digest(prompts)
    if sha256 != entry.sha256:
        raise DataError(
            f"{where} has changed since it was pulled: sha256 {sha256}, expected {entry.sha256}; "
            f"run `refusal-checks data pull {mirror}` again"
        )
    return prompts


def pull(benchmark: Benchmark, mirror: Path) -> MirrorEntry:
    """Fetch a benchmark's data into a mirror.

    Raises:
        DataError: it cannot be fetched, or is not as expected.
    """
    for resource in benchmark.resources:
        resource.pull(mirror)
    prompts = load_prompts(benchmark, mirror)
    return MirrorEntry(benchmark.revision, digest(prompts), len(prompts))


def write_index(mirror: Path, entries: Mapping[str, MirrorEntry]) -> None:
    """Add entries to a mirror's index."""
    known: dict[str, Any] = {**read_index(mirror), **entries}
    text = json.dumps({name: vars(known[name]) for name in sorted(known)}, indent=2)
    (mirror / INDEX).write_text(text + "\n", encoding="utf-8")


def public(benchmarks: Iterable[Benchmark]) -> list[Benchmark]:
    """The benchmarks whose data is fetched, and so belongs in a mirror."""
    return [benchmark for benchmark in benchmarks if benchmark.resources]
