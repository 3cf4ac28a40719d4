"""The Hugging Face splits, through the real loader, from small files; and files that are none."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from pyarrow import parquet

from refusal_checks.benchmarks import discover, load_prompts, mirror_index
from refusal_checks.benchmarks.hub import HubSplit
from refusal_checks.benchmarks.suites.llm_refusal_evaluation import REPOSITORY, REVISION
from refusal_checks.core.errors import DataError

ROWS: dict[str, list[Any]] = {
    "prompt": ["What is it?", "这是什么？"],
    "dataset_source": ["one", "two"],
    "type": [1, 0],
}


def write_split(
    mirror: Path, split: str, columns: dict[str, list[Any]], names: list[str]
) -> None:
    """A split as the Hugging Face hub publishes it, with class labels where names are given."""
    import datasets

    data = datasets.Dataset.from_dict(columns)
    if names:
        data = data.cast_column("type", datasets.ClassLabel(names=names))
    folder = mirror / "llm-refusal-evaluation" / "data"
    folder.mkdir(parents=True, exist_ok=True)
    data.to_parquet(str(folder / f"{split}-00000-of-00001.parquet"))


SPLITS = (
    "jailbreakbench",
    "sorrybench",
    "harmbench_sampled",
    "adversarial_unsafe_prompts",
    "ccp_sensitive_sampled",
    "deccp_censored",
    "general_prompts",
)


@pytest.mark.parametrize("name", SPLITS)
def test_each_split_loads_from_a_mirror_under_its_own_name(
    tmp_path: Path, name: str
) -> None:
    write_split(tmp_path, name, ROWS, ["first", "second"])
    found = discover()[name].at(tmp_path)
    assert [
        prompt.request for prompt in mirror_index.load_checked(found, tmp_path)
    ] == ROWS["prompt"]
    assert found.revision == "97ddaed9efda7993ccbb9dc504a104c86b6e233f"


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"text": ["a"]}, 'deccp_censored: no column "prompt".* Known: text'),
        ({"prompt": [None]}, "deccp_censored: row 0 has no text"),
        ({"prompt": [3]}, "deccp_censored: row 0 has no text"),
        ({"prompt": ["a", " "]}, "deccp_censored-1 is empty"),
    ],
)
def test_rows_that_are_no_prompts_are_named(
    tmp_path: Path, columns: dict[str, list[Any]], reason: str
) -> None:
    write_split(tmp_path, "deccp_censored", columns, [])
    with pytest.raises(DataError, match=reason):
        load_prompts(discover()["deccp_censored"], tmp_path)


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        (
            ValueError("Unknown split \"c\". Should be one of ['train']."),
            "no such split.*train",
        ),
        (
            ConnectionError("no route"),
            "^name a mirror with --data DIR or REFUSAL_CHECKS_DATA, .*loaded: no route$",
        ),
    ],
)
def test_what_the_hub_refuses_is_said_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, said: Exception, remedy: str
) -> None:
    monkeypatch.setattr("datasets.load_dataset", Mock(side_effect=said))
    with pytest.raises(DataError, match=remedy):
        HubSplit("a/b", "main", "c", "folder").rows(None)


def test_a_pulled_split_is_read_back_with_its_class_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    rows = datasets.Dataset.from_dict(ROWS)
    names = datasets.ClassLabel(names=["first", "second"])
    hub = Mock(return_value=rows.cast_column("type", names))
    with monkeypatch.context() as patched:
        patched.setattr(datasets, "load_dataset", hub)
        discover()["sorrybench"].resources[0].pull(tmp_path)
    asked = {"split": "sorrybench", "revision": REVISION, "streaming": False}
    hub.assert_called_once_with(REPOSITORY, None, **asked)
    found = load_prompts(discover()["sorrybench"], tmp_path)
    assert [prompt.request for prompt in found] == ROWS["prompt"]
    assert [dict(prompt.groups) for prompt in found] == [
        {"category": "second", "source": "one"},
        {"category": "first", "source": "two"},
    ]
    assert [prompt.id for prompt in found] == ["sorrybench-0", "sorrybench-1"]


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
        pa.nulls(10**6),  # takes room once it is unpacked only
    ],
)
def test_a_file_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, column: pa.Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refusal_checks.io.parquet.LARGEST", 10**7)
    path = write(tmp_path, pa.table({"prompt": column}))
    assert path.stat().st_size < 10**6
    with pytest.raises(
        DataError, match=r"parquet: use a smaller file: its rows take more"
    ):
        SPLIT.rows(tmp_path)
