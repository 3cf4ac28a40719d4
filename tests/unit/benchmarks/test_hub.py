"""Parquet files of a mirror that nobody should unpack, or that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from refusal_checks.benchmarks import hub
from refusal_checks.benchmarks.hub import HubSplit
from refusal_checks.core.errors import DataError

SPLIT = HubSplit("org/set", "main", "train", "hub/org/set")


def write(mirror: Path, table: pa.Table) -> Path:
    path = mirror / SPLIT.folder / "train-00000-of-00001.parquet"
    path.parent.mkdir(parents=True)
    parquet.write_table(table, path, compression="zstd")
    return path


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["x" * 100_000] * 2_000),  # one value in a dictionary, many times
        pa.array([f"{number} {'x' * 100_000}" for number in range(200)]),  # packed well
    ],
)
def test_a_file_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, column: pa.Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "LARGEST", 10**7)
    path = write(tmp_path, pa.table({"prompt": column}))
    assert path.stat().st_size < 10**6
    with pytest.raises(DataError, match=r"parquet: put a smaller file there: its rows take more"):
        SPLIT.rows(tmp_path)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\x00" * 100 + b"PAR1"])
def test_a_file_that_is_no_parquet_is_named(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path, pa.table({"prompt": ["a"]}))
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"train-00000-of-00001\.parquet: not a Parquet file"):
        SPLIT.rows(tmp_path)


def test_an_ordinary_file_is_read(tmp_path: Path) -> None:
    write(tmp_path, pa.table({"prompt": ["a", "b"], "n": [1, 2]}))
    assert SPLIT.rows(tmp_path)["prompt"] == ["a", "b"]
    for file in Path(tmp_path).rglob("empty"):
        file.unlink()
