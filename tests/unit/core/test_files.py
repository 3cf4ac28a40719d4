"""Files are written whole or not at all, and tell whether they have changed since."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from refusal_checks.io.files import (
    append_seal,
    read_seal,
    sha256,
    write_lines,
    write_text,
)


def test_the_digest_is_that_of_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    written = write_lines(path, ["one\n", "\ud800 two\n"])
    assert (written.sha256, written.size) == (sha256(path), path.stat().st_size)


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("other")
    path = tmp_path / "file"
    path.symlink_to("other")
    write_text(path, "new")
    assert (tmp_path / "other").read_text() == "other"
    assert path.read_text() == "new"


def test_what_is_no_file_is_written_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_text(path, "new")
    assert os.read(reader, 9) == b"new"
    os.close(reader)
    assert path.is_fifo()


def test_lines_that_end_early_leave_the_earlier_file(tmp_path: Path) -> None:
    def lines() -> Iterator[str]:
        yield "new"
        raise KeyboardInterrupt

    path = tmp_path / "file"
    path.write_text("earlier")
    with pytest.raises(KeyboardInterrupt):
        write_lines(path, lines())
    assert path.read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [path]


SEALED = "".join(append_seal(["{\n", ' "a": 1,\n'])).encode()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (SEALED.replace(b"1", b"2", 1), "changed"),
        (SEALED.replace(b'"a"', b'"b"'), "changed"),
        (SEALED.replace(b"{\n", b"{\n\n"), "changed"),
        (SEALED[:-5], "last line"),
        (SEALED + SEALED[:4], "last line"),
        (b"{}", "last line"),
        (b"", "last line"),
    ],
)
def test_a_seal_shows_that_a_file_has_changed(content: bytes, why: str) -> None:
    assert len(read_seal(SEALED)) == 64
    with pytest.raises(ValueError, match=why):
        read_seal(content)
