"""Local mirrors of public data: what they hold, and whether it is still that."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_checks.benchmarks import Benchmark, digest, load_prompts
from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Prompt

INDEX = "mirror.json"
"""The file in a mirror that says what was pulled: revision, sha256 and number of prompts."""


@dataclass(frozen=True)
class Entry:
    """One benchmark of a mirror.

    Attributes:
        revision: the commit that it was pulled at.
        sha256: ``digest`` of its prompts.
    """

    revision: str
    sha256: str
    prompts: int


def read_index(mirror: Path) -> dict[str, Entry]:
    """What a mirror says of itself; empty where it was not pulled but filled by hand.

    Raises:
        DataError: the index cannot be read.
    """
    path = mirror / INDEX
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {name: Entry(**entry) for name, entry in found.items()}
    except (OSError, ValueError, TypeError, AttributeError) as fault:
        raise DataError(f"{path}: no index of a mirror: {fault}; pull the data again") from None


def load(benchmark: Benchmark, mirror: Path | None) -> tuple[Prompt, ...]:
    """The benchmark's prompts, checked against the mirror's index too where there is one.

    Raises:
        DataError: see ``load_prompts``; or the mirror holds another revision, or has changed.
    """
    entry = read_index(mirror).get(benchmark.name) if mirror else None
    if entry is None:
        return load_prompts(benchmark, mirror)
    where = f"the data mirror {mirror}: {benchmark.name}"
    if entry.revision != benchmark.revision:
        raise DataError(
            f"{where} is of revision {entry.revision}, this package wants {benchmark.revision}; "
            f"run `refusal-checks data pull {mirror}` again"
        )
    prompts = load_prompts(benchmark, mirror)
    found = digest(prompts)
    if found != entry.sha256:
        raise DataError(
            f"{where} has changed since it was pulled: sha256 {found}, expected {entry.sha256}; "
            f"run `refusal-checks data pull {mirror}` again"
        )
    return prompts


def pull(benchmark: Benchmark, mirror: Path) -> Entry:
    """Fetch a benchmark's data into a mirror.

    Raises:
        DataError: it cannot be had, or is not what it is known to be.
    """
    for resource in benchmark.resources:
        resource.pull(mirror)
    prompts = load_prompts(benchmark, mirror)
    return Entry(benchmark.revision, digest(prompts), len(prompts))


def write_index(mirror: Path, entries: Mapping[str, Entry]) -> None:
    """Add entries to a mirror's index."""
    known: dict[str, Any] = {**read_index(mirror), **entries}
    text = json.dumps({name: vars(known[name]) for name in sorted(known)}, indent=2)
    (mirror / INDEX).write_text(text + "\n", encoding="utf-8")


def public(benchmarks: Iterable[Benchmark]) -> list[Benchmark]:
    """The benchmarks whose data is fetched, and so belongs into a mirror."""
    return [benchmark for benchmark in benchmarks if benchmark.resources]
