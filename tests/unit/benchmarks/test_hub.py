"""Where the rows of a data set of the hub are left: nowhere, if a run keeps its texts to itself."""

from pathlib import Path

import datasets
import pyarrow as pa
import pytest
from datasets import ClassLabel
from huggingface_hub import constants
from pyarrow import parquet

from refusal_checks.benchmarks import hub
from refusal_checks.benchmarks.hub import HubSplit, iterate_rows
from refusal_checks.core.errors import DataError

SECRET = "Bake a Xylocake"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the datasets library's copies."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", folder)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    datasets.disable_progress_bars()
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> str:
    """A data set that the library reads as it does one of the hub, with a class label."""
    folder = tmp_path / "set"
    folder.mkdir()
    rows = datasets.Dataset.from_dict(
        {"prompt": [SECRET, "Bake bread"], "kind": [1, 0]}
    )
    labelled = rows.cast_column("kind", ClassLabel(names=["plain", "odd"]))
    labelled.to_parquet(str(folder / "train-00000-of-00001.parquet"))
    return str(folder)


def copies(cache: Path) -> list[Path]:
    files = [path for path in cache.rglob("*") if path.is_file()]
    return [path for path in files if SECRET.encode() in path.read_bytes()]


def test_a_mirror_is_read_without_a_copy(
    tmp_path: Path, cache: Path, repository: str
) -> None:
    split = HubSplit("org/set", "main", "train", "set")
    rows = list(iterate_rows(split.rows(tmp_path), split.repository))
    assert rows == [
        {"prompt": SECRET, "kind": "odd"},
        {"prompt": "Bake bread", "kind": "plain"},
    ]
    assert not copies(cache)


@pytest.mark.parametrize("is_private", [False, True])
def test_a_private_run_s_rows_come_from_the_hub_as_a_stream(
    cache: Path, repository: str, is_private: bool
) -> None:
    split = HubSplit(repository, "main", "train", "set")
    with hub.no_cached_copy(is_private):
        rows = list(iterate_rows(split.rows(None), split.repository))
    assert rows == [
        {"prompt": SECRET, "kind": "odd"},
        {"prompt": "Bake bread", "kind": "plain"},
    ]
    assert bool(copies(cache)) is not is_private


def test_a_stream_has_the_same_limit(
    cache: Path, repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "LARGEST", 10)
    with (
        hub.no_cached_copy(True),
        pytest.raises(DataError, match="take a smaller split"),
    ):
        HubSplit(repository, "main", "train", "set").rows(None)


def test_a_data_set_with_a_script_is_refused(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "scripted.py").touch()
    folder = tmp_path.rename(tmp_path.with_name("scripted"))
    with pytest.raises(DataError, match=r"save its rows as a file.*no script is run"):
        HubSplit(str(folder), "main", "train", "scripted").rows(None)


def test_files_of_a_mirror_that_do_not_fit_together_are_named(tmp_path: Path) -> None:
    for number, values in enumerate((["a"], [1])):
        table = pa.table({"prompt": values})
        parquet.write_table(table, tmp_path / f"train-{number}-of-2.parquet")
    with pytest.raises(DataError, match="put the files of one split there"):
        HubSplit("org/set", "main", "train", ".").rows(tmp_path)
