"""What is refused before it is read: pipes, which wait for ever, and more than fits into memory."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from refusal_checks.core.data_files import COLUMNS, SEPARATORS, read_json, read_rows
from refusal_checks.core.errors import DataError, UserError
from refusal_checks.core.files import read_bytes
from refusal_checks.gates import toml_file
from refusal_checks.spec.tables import SamplingTable
from tests.unit.conftest import Write


def system_prompt(path: Path) -> object:
    return SamplingTable(system_prompt_file=str(path)).drawn


@pytest.mark.parametrize(
    "read", [read_rows, read_json, read_bytes, toml_file.read, system_prompt]
)
def test_a_pipe_is_refused_and_not_waited_for(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    with pytest.raises(UserError, match="save it to a file first: it is a pipe"):
        read(pipe)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a" + "," * COLUMNS, "keep the columns that you need: the header has more"),
        (f"a,b\nc{',' * (SEPARATORS + 1)}", "line 2: split it or remove it: it has"),
    ],
)
def test_a_table_of_too_many_columns_is_refused(
    write: Write, content: str, said: str
) -> None:
    with pytest.raises(DataError, match=re.escape(said)):
        read_rows(write("rows.csv", content))
