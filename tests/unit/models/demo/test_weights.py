"""Weights are read, merged and written without torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.models.demo.smollm2 import (
    Adapter,
    bfloat16,
    read_adapter,
    read_tensors,
    write_tensors,
)

CONFIG = {
    "peft_type": "LORA",
    "base_model_name_or_path": "HuggingFaceTB/SmolLM2-135M-Instruct",
    "r": 2,
    "lora_alpha": 6,
    "bias": "none",
    "rank_pattern": {},
    "use_dora": False,
}
NAMED = "model.layers.0.self_attn.q_proj"


def write(folder: Path, **changes: Any) -> Path:
    """A folder with an adapter of one tensor."""
    factors = {
        f"base_model.model.{NAMED}.lora_A.weight": np.array([[1, 2, 3], [0, 1, 0]], np.float32),
        f"base_model.model.{NAMED}.lora_B.weight": np.array([[1, 0], [0, 2]], np.float32),
    }
    made = {name: (value.shape, iter([bfloat16(value)])) for name, value in factors.items()}
    write_tensors(folder / "adapter_model.safetensors", made)
    (folder / "adapter_config.json").write_text(json.dumps(CONFIG | changes))
    return folder


def test_bfloat16_is_the_nearest_and_ties_go_to_even() -> None:
    values = np.array([1.0, -2.5, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, 3e-39], np.float32)
    rounded = (bfloat16(values).astype(np.uint32) << 16).view(np.float32)
    expected = [1.0, -2.5, 1.0, 1 + 2**-6, 1 + 2**-7]
    assert rounded[:5].tolist() == expected
    torch = pytest.importorskip("torch")
    many = np.random.default_rng(0).normal(size=10_000).astype(np.float32)
    theirs = torch.from_numpy(many).bfloat16().view(torch.uint16).numpy()
    assert np.array_equal(bfloat16(many), theirs)


def test_other_libraries_read_what_is_written(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.torch")
    write(tmp_path)
    path = tmp_path / "adapter_model.safetensors"
    theirs = library.load_file(path)
    ours = dict(read_tensors(path))
    assert set(theirs) == set(ours)
    assert all(np.array_equal(theirs[name].float().numpy(), ours[name]) for name in ours)


def test_an_adapter_is_added_by_its_scale(tmp_path: Path) -> None:
    found = read_adapter(write(tmp_path))
    base = np.ones((2, 3), np.float32)
    assert found.added_to("model.norm.weight", base) is base
    merged = found.added_to(f"{NAMED}.weight", base)
    assert merged.tolist() == [[4, 7, 10], [1, 7, 1]]
    assert merged.dtype == np.float32
    root = read_adapter(write(tmp_path, use_rslora=True))
    assert root.scale == pytest.approx(6 / 2**0.5)
    assert isinstance(found, Adapter)


@pytest.mark.parametrize(
    "changes",
    [
        {"use_dora": True},
        {"bias": "all"},
        {"rank_pattern": {"q_proj": 4}},
        {"modules_to_save": ["lm_head"]},
        {"peft_type": "IA3"},
    ],
    ids=str,
)
def test_an_adapter_of_another_kind_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="only plain LoRA"):
        read_adapter(write(tmp_path, **changes))


def test_an_adapter_of_another_base_is_refused(tmp_path: Path) -> None:
    other = {"base_model_name_or_path": "HuggingFaceTB/SmolLM-135M-Instruct"}
    with pytest.raises(ModelError, match="this one is of HuggingFaceTB/SmolLM-135M-Instruct"):
        read_adapter(write(tmp_path, **other))
