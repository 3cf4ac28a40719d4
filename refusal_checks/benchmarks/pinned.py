"""Public data files, pinned by revision and sha256, from a local mirror or from the network.

A mirror that ``data pull`` filled has an index, which tells if its data has changed.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from refusal_checks.benchmarks.benchmark import Benchmark, digest, load_prompts
from refusal_checks.core.data_files import read_csv
from refusal_checks.core.errors import DataError, network_reason
from refusal_checks.core.files import write_json
from refusal_checks.core.prompts import Kind, Prompt
from refusal_checks.core.redaction import without_credentials
from refusal_checks.core.strict_json import parse_json

MIRROR_VARIABLE = "REFUSAL_CHECKS_DATA"


@dataclass(frozen=True)
class PinnedFile:
    """One file of a public data set."""

    path: str  # relative to a mirror's root
    url: str  # at that revision; empty if no address is public, so that only a mirror can hold it
    revision: str
    sha256: str  # of the file's bytes, in hexadecimal
    is_pinned: ClassVar[bool] = True
    is_gated: ClassVar[bool] = False

    def is_in(self, mirror: Path) -> bool:
        return (mirror / self.path).is_file()

    def pull(self, mirror: Path) -> None:
        _retrieve(self, mirror / self.path)


def mirror_folder(named: str | None = None) -> Path | None:
    """The local mirror, if ``--data`` (``named``) or else ``REFUSAL_CHECKS_DATA`` names one."""
    value = named or os.environ.get(MIRROR_VARIABLE)
    if not value:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        option = "--data " if named else f"{MIRROR_VARIABLE}="
        raise DataError(
            f"{option}{value}: no such folder; `refusal-checks data pull DIR` fills one"
        )
    return folder


def fetch(file: PinnedFile, mirror: Path | None) -> Path:
    """The file's path: in the mirror if one is given, else in a cache to which it is downloaded."""
    if mirror is None:
        import pooch  # imports requests, which collection need not wait for

        cache = Path(pooch.os_cache("refusal-checks")) / file.revision[:12] / file.path
        return _retrieve(file, cache)
    path = mirror / file.path
    if not path.is_file():
        raise DataError(
            f"the data mirror {mirror} lacks {file.path}; fetch it with "
            f"`refusal-checks data pull {mirror}` or put {file.url or 'it'} there"
        )
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    if sha256 != file.sha256:
        raise DataError(
            f"{path}: sha256 {sha256}, expected {file.sha256} (revision {file.revision}); "
            f"fetch {file.url or 'it'} again"
        )
    return path


def _retrieve(file: PinnedFile, path: Path) -> Path:
    import pooch

    if not file.url:
        raise DataError(
            f"{file.path} is not offered for download: put the authors' file into a mirror and "
            f"name that with --data or {MIRROR_VARIABLE}"
        )
    try:
        pooch.retrieve(
            file.url, f"sha256:{file.sha256}", path.name, path.parent, progressbar=False
        )
    except (OSError, ValueError) as fault:
        raise DataError(
            f"name a mirror that holds {file.path} with --data DIR or {MIRROR_VARIABLE}, or "
            f"connect this machine to the network: {file.url} could not be downloaded: "
            f"{without_credentials(network_reason(fault))}"
        ) from fault
    return path


def table_benchmark(
    name: str,
    kind: Kind,
    description: str,
    file: PinnedFile,
    text: str,
    groups: Mapping[str, str],
    *,
    context: str = "",
    ids: str = "",
    prefix: str | None = None,
    only: Sequence[str] = (),
    judge: str = Benchmark.judge,
) -> Benchmark:
    """A benchmark whose prompts are the rows of a pinned CSV or Parquet file.

    Args:
        text: the column with the prompts.
        groups: column by kind of group.
        context: the column with what precedes a prompt, where a row has something there.
        ids: the column with the second half of each prompt's id; by default the row's place from 0.
        prefix: the first half; by default the benchmark's name and a hyphen.
        only: a column and the value that its rows have there.
    """
    stem = f"{name}-" if prefix is None else prefix
    wanted = [text, *groups.values(), *filter(None, (context, ids)), *only[:1]]

    def load(mirror: Path | None) -> list[Prompt]:
        prompts = []
        for number, row in enumerate(_rows(fetch(file, mirror), wanted)):
            if only and row[only[0]] != only[1]:
                continue
            before = row[context].strip() if context else ""
            asked = f"{before}\n\n---\n\n{row[text]}" if before else row[text]
            own = {group: str(row[column]) for group, column in groups.items()}
            prompts.append(
                Prompt.single(f"{stem}{row[ids] if ids else number}", asked, **own)
            )
        return prompts

    return Benchmark(name, kind, description, load, file.revision, judge, (file,))


def _rows(path: Path, columns: Sequence[str]) -> list[dict[str, Any]]:
    if path.suffix != ".parquet":
        return read_csv(path, columns)
    from pyarrow import (
        parquet,
    )  # takes long to import, which collection need not wait for

    rows: list[dict[str, Any]] = parquet.read_table(path, columns=columns).to_pylist()
    return rows


INDEX = "mirror.json"
"""The file in a mirror that lists what was pulled: revision, sha256 and number of prompts."""


@dataclass(frozen=True)
class MirrorEntry:
    """What was pulled of one benchmark; ``sha256`` is the ``digest`` of its prompts."""

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
    """The benchmark's prompts, also checked against the mirror's index if there is one."""
    entry = read_index(mirror).get(benchmark.name) if mirror else None
    again = f"run `refusal-checks data pull {mirror}` again"
    where = f"the data mirror {mirror}: {benchmark.name}"
    if entry and entry.revision != benchmark.revision:
        raise DataError(
            f"{where} has revision {entry.revision}, this package needs {benchmark.revision}; "
            f"{again}"
        )
    prompts = load_prompts(benchmark, mirror)
    if entry and (sha256 := digest(prompts)) != entry.sha256:
        raise DataError(
            f"{where} has changed since it was pulled: sha256 {sha256}, expected {entry.sha256}; "
            f"{again}"
        )
    return prompts


def pull(benchmark: Benchmark, mirror: Path) -> MirrorEntry:
    """Fetch a benchmark's data into a mirror, and add it to the mirror's index."""
    for resource in benchmark.resources:
        resource.pull(mirror)
    prompts = load_prompts(benchmark, mirror)
    entry = MirrorEntry(benchmark.revision, digest(prompts), len(prompts))
    known = {**read_index(mirror), benchmark.name: entry}
    write_json(mirror / INDEX, {name: vars(known[name]) for name in sorted(known)})
    return entry
