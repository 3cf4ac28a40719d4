"""Public data files, pinned by revision and sha256, from a local mirror or from the network."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from refusal_checks.core.errors import DataError, network_reason
from refusal_checks.core.text import without_credentials

MIRROR_VARIABLE = "REFUSAL_CHECKS_DATA"


@dataclass(frozen=True)
class PinnedFile:
    """One file of a public data set.

    Attributes:
        path: its place in a mirror, relative to the mirror's root.
        url: its address at that revision; empty if it has no public one, so that only a mirror
            can hold it.
        revision: the commit.
        sha256: of the file's bytes, in hexadecimal.
    """

    path: str
    url: str
    revision: str
    sha256: str
    is_pinned: ClassVar[bool] = True
    is_gated: ClassVar[bool] = False

    def is_in(self, mirror: Path) -> bool:
        """See ``Resource.is_in``."""
        return (mirror / self.path).is_file()

    def pull(self, mirror: Path) -> Path:
        """See ``Resource.pull``; a file with the right bytes is kept."""
        return _retrieve(self, mirror / self.path)


def mirror_folder(named: str | None = None) -> Path | None:
    """The local mirror: the folder that ``--data`` or else ``REFUSAL_CHECKS_DATA`` names, if any.

    Args:
        named: the value of ``--data``.

    Raises:
        DataError: it is not a folder.
    """
    value = named or os.environ.get(MIRROR_VARIABLE)
    if not value:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise DataError(f"{'--data ' if named else MIRROR_VARIABLE + '='}{value}: no such folder")
    return folder


def fetch(file: PinnedFile, mirror: Path | None) -> Path:
    """The file's path: in the mirror if one is given, else in a cache to which it is downloaded.

    Raises:
        DataError: the file is missing, cannot be downloaded, or does not have the pinned sha256.
    """
    if mirror:
        return _mirrored(file, mirror)
    import pooch  # imports requests, which collection need not wait for

    cache = Path(pooch.os_cache("refusal-checks")) / file.revision[:12] / file.path
    return _retrieve(file, cache)


def _mirrored(file: PinnedFile, mirror: Path) -> Path:
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
        pooch.retrieve(file.url, f"sha256:{file.sha256}", path.name, path.parent, progressbar=False)
    except (OSError, ValueError) as fault:
        raise DataError(
            f"name a mirror that holds {file.path} with --data DIR or {MIRROR_VARIABLE}, or "
            f"connect this machine to the network: {file.url} could not be downloaded: "
            f"{without_credentials(network_reason(fault))}"
        ) from fault
    return path
