"""Public data files, pinned by revision and sha256, from a local mirror or the network."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from refusal_checks.core.errors import DataError, describe_network_fault
from refusal_checks.core.redaction import strip_credentials

MIRROR_VARIABLE = "REFUSAL_CHECKS_DATA"

CONNECT = "connect this machine to the network"
"""The remedy where data cannot be downloaded; a run can be given a mirror instead."""


@dataclass(frozen=True)
class PinnedFile:
    """One file of a public data set.

    Attributes:
        path: relative to a mirror's root.
        url: URL at that revision; empty if none is public and the file must be in a mirror.
        sha256: digest of the file, in hexadecimal.
    """

    path: str
    url: str
    revision: str
    sha256: str
    is_pinned: ClassVar[bool] = True
    is_gated: ClassVar[bool] = False

    def is_in(self, mirror: Path) -> bool:
        return (mirror / self.path).is_file()

    def pull(self, mirror: Path) -> None:
        _retrieve(self, mirror / self.path, CONNECT)


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
    """The file's path: in the mirror if one is given, else in the cache, after a download."""
    if mirror is None:
        import pooch  # imports requests, which collection need not wait for

        # By revision: another version of this package may pin another.
        cache = Path(pooch.os_cache("refusal-checks")) / file.revision[:12] / file.path
        remedy = (
            f"name a mirror that holds {file.path} with --data DIR or {MIRROR_VARIABLE}"
        )
        return _retrieve(file, cache, f"{remedy}, or {CONNECT}")
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


def _retrieve(file: PinnedFile, path: Path, remedy: str) -> Path:
    import pooch

    if not file.url:
        raise DataError(
            f"{file.path} is not offered for download: put the authors' file into the mirror that "
            f"a gate run names with --data or {MIRROR_VARIABLE}"
        )
    try:
        pooch.retrieve(
            file.url, f"sha256:{file.sha256}", path.name, path.parent, progressbar=False
        )
    except (OSError, ValueError) as fault:
        raise DataError(
            f"{remedy}: {file.url} could not be downloaded: "
            f"{strip_credentials(describe_network_fault(fault))}"
        ) from fault
    return path
