"""What is refused before it is read: pipes, which wait for ever, and more than fits into memory."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from refusal_checks.config import toml_file
from refusal_checks.config.tables import SamplingTable
from refusal_checks.core.errors import DataError, UserError
from refusal_checks.io import files
from refusal_checks.io.data_files import read_rows
from refusal_checks.io.files import read_bytes
from tests.unit.conftest import Write


def system_prompt(path: Path) -> object:
    return SamplingTable(system_prompt_file=str(path)).with_prompt_text()


@pytest.mark.parametrize("read", [read_rows, read_bytes, toml_file.read, system_prompt])
def test_a_pipe_is_refused_and_not_waited_for(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    with pytest.raises(UserError, match="save it to a file first: it is a pipe"):
        read(pipe)


def test_a_file_that_is_too_large_is_refused(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LARGEST", 2**20)
    with pytest.raises(
        DataError, match=r"a\.csv: make it smaller: it has more than 1 MiB"
    ):
        read_rows(write("a.csv", "a" * (2**20 + 1)))


def test_a_file_in_another_encoding_is_refused_with_the_place(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes("prompt;kind\nGrüße;a\n".encode("latin-1"))
    fault = r"line 2, column 3: save the file as UTF-8: this byte is 0xfc"
    with pytest.raises(DataError, match=fault):
        read_rows(path)
