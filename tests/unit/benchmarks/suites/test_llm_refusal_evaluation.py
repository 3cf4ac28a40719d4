"""The Hugging Face splits, through the real loader, from small files; and files that are none."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import datasets
import pyarrow as pa
import pytest
from datasets.exceptions import DatasetNotFoundError
from pyarrow import parquet

from refusal_checks.benchmarks import discover, load_prompts, mirror_index
from refusal_checks.benchmarks.hub import HubSplit
from refusal_checks.benchmarks.suites.llm_refusal_evaluation import REPOSITORY, REVISION
from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Prompt
from tests.support.tables import put_parquet

ROWS: dict[str, list[Any]] = {
    "prompt": ["What is it?", "这是什么？"],
    "dataset_source": ["one", "two"],
    "type": [1, 0],
}
CLASSES = {"type": ["first", "second"]}


SPLITS = (
    "jailbreakbench",
    "sorrybench",
    "harmbench_sampled",
    "adversarial_unsafe_prompts",
    "ccp_sensitive_sampled",
    "deccp_censored",
    "general_prompts",
)


def mirrored(split: str) -> Path:
    """Where a mirror has a split, as the Hugging Face hub publishes it."""
    return Path("llm-refusal-evaluation", "data", f"{split}-00000-of-00001.parquet")


@pytest.mark.parametrize("name", SPLITS)
def test_each_split_loads_from_a_mirror_under_its_own_name(
    tmp_path: Path, name: str
) -> None:
    put_parquet(tmp_path / mirrored(name), ROWS, CLASSES)
    found = discover()[name].at(tmp_path)
    loaded = mirror_index.load_checked(found, tmp_path)
    assert [prompt.request for prompt in loaded] == ROWS["prompt"]
    assert found.revision == "97ddaed9efda7993ccbb9dc504a104c86b6e233f"


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"text": ["a"]}, 'deccp_censored: no column "prompt".* Known: text'),
        ({"prompt": [None]}, "deccp_censored: row 0 has no text"),
        ({"prompt": ["a", " "]}, "deccp_censored-1 is empty"),
    ],
)
def test_rows_that_are_no_prompts_are_named(
    tmp_path: Path, columns: dict[str, list[Any]], reason: str
) -> None:
    put_parquet(tmp_path / mirrored("deccp_censored"), columns)
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
        (
            DatasetNotFoundError("Dataset 'a/b' is a gated dataset on the Hub."),
            "accept its conditions at https://huggingface.co/datasets/a/b .*HF_TO",
        ),
        (
            RuntimeError("Dataset scripts are no longer supported, but found b.py"),
            "save its rows as a file and name that: no script is run",
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
    path = put_parquet(tmp_path / "published.parquet", ROWS, CLASSES)
    hub = Mock(return_value=datasets.Dataset.from_parquet(str(path)))
    benchmark = discover()["sorrybench"]
    with monkeypatch.context() as patched:
        patched.setattr(datasets, "load_dataset", hub)
        benchmark.resources[0].pull(tmp_path)
    hub.assert_called_once_with(
        REPOSITORY, None, split="sorrybench", revision=REVISION, streaming=False
    )
    first, second = ROWS["prompt"]
    assert load_prompts(benchmark, tmp_path) == (
        Prompt.single("sorrybench-0", first, category="second", source="one"),
        Prompt.single("sorrybench-1", second, category="first", source="two"),
    )


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
    path = tmp_path / "train-00000-of-00001.parquet"
    parquet.write_table(pa.table({"prompt": column}), path, compression="zstd")
    assert path.stat().st_size < 10**6
    told = r"parquet: use a smaller file: its rows take more"
    with pytest.raises(DataError, match=told):
        HubSplit("org/set", "main", "train", ".").rows(tmp_path)
