"""What a file lies on."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from refusal_checks.core import database

MOUNTS = [
    ("/", "ext4"),
    ("/home", "nfs4"),
    ("/home/me/fast", "xfs"),
    ("/scratch", "ext4"),
    ("/scratch", "lustre"),
    ("/scratch two", "fuse.sshfs"),
]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/etc/store.sqlite", "ext4"),
        ("/home/me/store.sqlite", "nfs4"),
        ("/home/me/fast/new/store.sqlite", "xfs"),
        ("/home/me/faster/store.sqlite", "nfs4"),
        ("/homes/store.sqlite", "ext4"),
        ("/scratch/store.sqlite", "lustre"),
        ("/scratch two/store.sqlite", "fuse.sshfs"),
    ],
)
def test_a_path_lies_on_the_innermost_mount(path: str, kind: str) -> None:
    assert database.nearest(PurePosixPath(path), MOUNTS) == kind


def test_nothing_is_known_without_mounts() -> None:
    assert database.nearest(PurePosixPath("/store.sqlite"), []) == ""


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "lustre", "fuse.s3fs", "CIFS", "9p"]
)
def test_what_machines_share_is_a_network_file_system(kind: str) -> None:
    assert database.is_network(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "apfs", "tmpfs", "overlay", "fuse.ntfs-3g", ""])
def test_what_one_machine_has_is_none(kind: str) -> None:
    assert not database.is_network(kind)


def test_a_path_that_is_not_there_yet_has_a_file_system(tmp_path: Path) -> None:
    made = database.kind(tmp_path)
    assert database.kind(tmp_path / "new" / "store.sqlite") == made
    assert made
