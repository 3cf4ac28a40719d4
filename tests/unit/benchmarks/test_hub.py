"""Where the rows of a data set of the hub are left: nowhere, if a run keeps its texts to itself."""

from pathlib import Path

import datasets
import pytest
from huggingface_hub import constants

from refusal_checks.benchmarks import hub
from refusal_checks.benchmarks.hub import HubSplit, iterate_rows
from refusal_checks.core.errors import DataError
from tests.support.tables import put_parquet

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
    put_parquet(
        tmp_path / "set" / "train-00000-of-00001.parquet",
        {"prompt": [SECRET, "Bake bread"], "kind": [1, 0]},
        classes={"kind": ["plain", "odd"]},
    )
    return str(tmp_path / "set")


def copies(cache: Path) -> list[Path]:
    files = [path for path in cache.rglob("*") if path.is_file()]
    return [path for path in files if SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    ("is_private", "has_mirror", "is_copied"),
    [(False, False, True), (True, False, False), (False, True, False)],
)
def test_a_private_run_and_a_mirror_leave_no_copy_of_the_rows(
    cache: Path, repository: str, is_private: bool, has_mirror: bool, is_copied: bool
) -> None:
    mirror = Path(repository).parent if has_mirror else None
    split = HubSplit(repository, "main", "train", "set")
    with hub.no_cached_copy(is_private):
        rows = list(iterate_rows(split.rows(mirror), split.repository))
    assert rows == [
        {"prompt": SECRET, "kind": "odd"},
        {"prompt": "Bake bread", "kind": "plain"},
    ]
    assert bool(copies(cache)) is is_copied


def test_a_stream_has_the_same_limit(
    cache: Path, repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "LARGEST", 10)
    with (
        hub.no_cached_copy(True),
        pytest.raises(DataError, match="use a smaller split"),
    ):
        HubSplit(repository, "main", "train", "set").rows(None)
