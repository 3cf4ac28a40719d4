"""The index of a mirror filled by ``data pull``, which shows whether its data has changed."""

from dataclasses import dataclass
from pathlib import Path

from refusal_checks.benchmarks.benchmark import Benchmark, digest, load_prompts
from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Prompt
from refusal_checks.io.files import write_json
from refusal_checks.io.strict_json import parse_json

INDEX = "mirror.json"
"""The file in a mirror that lists what was pulled: revision, sha256 and number of prompts."""


@dataclass(frozen=True)
class MirrorEntry:
    """What was pulled for one benchmark; ``sha256`` is the ``digest`` of its prompts."""

    revision: str
    sha256: str
    prompts: int


def read_index(mirror: Path) -> dict[str, MirrorEntry]:
    """The index of a mirror; empty if the mirror was filled by hand."""
    path = mirror / INDEX
    if not path.is_file():
        return {}
    try:
        entries = parse_json(path.read_bytes())
        return {name: MirrorEntry(**entry) for name, entry in entries.items()}
    except (OSError, ValueError, TypeError, AttributeError) as fault:
        raise DataError(
            f"{path}: not an index of a mirror: {fault}; pull the data again"
        ) from None


def load_checked(benchmark: Benchmark, mirror: Path | None) -> tuple[Prompt, ...]:
    """Load a benchmark's prompts, and check them against the mirror's index if there is one."""
    entry = read_index(mirror).get(benchmark.name) if mirror else None
    if entry is None:
        return load_prompts(benchmark, mirror)
    again = f"run `refusal-checks data pull {mirror}` again"
    where = f"the data mirror {mirror}: {benchmark.name}"
    if entry.revision != benchmark.revision:
        raise DataError(
            f"{where} has revision {entry.revision}, but this package needs {benchmark.revision}; "
            f"{again}"
        )
    prompts = load_prompts(benchmark, mirror)
    sha256 = digest(prompts)
    if sha256 != entry.sha256:
        raise DataError(
            f"{where} has changed since it was pulled: sha256 {sha256}, expected {entry.sha256}; "
            f"{again}"
        )
    return prompts


def pull(benchmark: Benchmark, mirror: Path) -> MirrorEntry:
    """Fetch a benchmark's data into a mirror, and add it to the mirror's index."""
    for resource in benchmark.resources:
        resource.pull(mirror)
    # The prompts' digest, not the files': Parquet written by another version has other bytes.
    prompts = load_prompts(benchmark, mirror)
    entry = MirrorEntry(benchmark.revision, digest(prompts), len(prompts))
    index = {**read_index(mirror), benchmark.name: entry}
    write_json(mirror / INDEX, {name: vars(index[name]) for name in sorted(index)})
    return entry
