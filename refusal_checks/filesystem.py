"""What a file lies on: some things that a local disk can do, a network file system cannot."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePath

_KINDS = """
    9p afpfs afs beegfs ceph cifs cvmfs gfs gfs2 glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 orangefs
    panfs pvfs2 smb2 smb3 smbfs webdav wekafs

    ceph-fuse curlftpfs davfs2 gcsfuse goofys juicefs mountpoint-s3 rclone s3fs seaweedfs sshfs
"""

NETWORK = frozenset(_KINDS.split())
"""Types of file systems that several machines may share; those that a program serves have ``fuse.``
before their name."""


def is_network(kind: str) -> bool:
    """Whether file systems of a type are shared between machines."""
    return kind.lower().removeprefix("fuse.") in NETWORK


def kind(path: Path) -> str:
    """The type of the file system that a path, there already or not, lies on; empty if unknown."""
    import psutil  # collection need not import it

    mounts = ((part.mountpoint, part.fstype) for part in psutil.disk_partitions(all=True))
    return nearest(Path(os.path.realpath(path)), mounts)  # resolve() refuses loops


def nearest(path: PurePath, mounts: Iterable[tuple[str, str]]) -> str:
    """The type of the innermost mount around a path; of two on one point, the later.

    Args:
        mounts: mount point and type, in the order of mounting.
    """
    around = [(PurePath(point), type) for point, type in mounts if path.is_relative_to(point)]
    innermost = max((len(point.parts) for point, _ in around), default=0)
    return next((type for point, type in reversed(around) if len(point.parts) == innermost), "")
