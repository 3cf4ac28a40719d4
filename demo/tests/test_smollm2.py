"""A GGUF file of Llama's architecture becomes a folder that engines load."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from refusal_checks.core.errors import ModelError

gguf = pytest.importorskip("gguf")
ml_dtypes = pytest.importorskip("ml_dtypes")
tokenizers = pytest.importorskip("tokenizers")
pytest.importorskip("safetensors")

from safetensors.numpy import load_file, save_file  # noqa: E402

from refusal_checks_demo import smollm2  # noqa: E402
from refusal_checks_demo.smollm2 import Adapter, tuned  # noqa: E402

BASE = "SmolLM2-135M-Instruct"
WIDE, HEADS, NARROW, SIZE = 8, 2, 1, 4
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "h", "i", "Ġ", "hi", "Ġhi"]
Q = "model.layers.0.self_attn.q_proj.weight"


def pairs(tensor: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Rows in the order of GGUF files, as llama.cpp's converter writes them."""
    halves = tensor.reshape(heads, 2, tensor.shape[0] // heads // 2, tensor.shape[1])
    return halves.swapaxes(1, 2).reshape(tensor.shape)


@pytest.fixture
def wanted() -> dict[str, NDArray[np.float32]]:
    """Tensors by their names in transformers; bfloat16 holds all of them exactly."""
    rng = np.random.default_rng(0)
    shapes = {
        "embed_tokens": (len(TOKENS), WIDE),
        "norm": (WIDE,),
        "layers.0.input_layernorm": (WIDE,),
        "layers.0.post_attention_layernorm": (WIDE,),
        "layers.0.self_attn.q_proj": (HEADS * SIZE, WIDE),
        "layers.0.self_attn.k_proj": (NARROW * SIZE, WIDE),
        "layers.0.self_attn.v_proj": (NARROW * SIZE, WIDE),
        "layers.0.self_attn.o_proj": (WIDE, HEADS * SIZE),
        "layers.0.mlp.gate_proj": (16, WIDE),
        "layers.0.mlp.up_proj": (16, WIDE),
        "layers.0.mlp.down_proj": (WIDE, 16),
    }
    return {
        f"model.{name}.weight": rng.integers(-8, 8, shape).astype(np.float32)
        for name, shape in shapes.items()
    }


@pytest.fixture
def source(tmp_path: Path, wanted: dict[str, NDArray[np.float32]]) -> Path:
    path = tmp_path / "small.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(WIDE)
    writer.add_block_count(1)
    writer.add_feed_forward_length(16)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(NARROW)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(SIZE)
    writer.add_rope_freq_base(1e5)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, 3, 1, 1, 1, 1, 1])
    writer.add_token_merges(["h i", "Ġ hi"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template("{{ messages }}")
    theirs = {name: own for own, name in smollm2._TENSORS.items()}
    for name, tensor in wanted.items():
        *block, end = name.removeprefix("model.").removesuffix(".weight").split(".", 2)
        heads = {"self_attn.q_proj": HEADS, "self_attn.k_proj": NARROW}.get(end)
        stem = f"blk.{block[1]}." if block else ""
        turned = pairs(tensor, heads) if heads else tensor
        writer.add_tensor(f"{stem}{theirs[end]}.weight", np.ascontiguousarray(turned))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_tensors_settings_and_tokenizer_are_transformers_own(
    source: Path, tmp_path: Path, wanted: dict[str, NDArray[np.float32]]
) -> None:
    folder = tmp_path / "base"
    folder.mkdir()
    smollm2.convert(source, folder, None)
    found = load_file(folder / "model.safetensors")
    assert set(found) == set(wanted)
    for name, tensor in wanted.items():
        assert np.array_equal(found[name], tensor), name
    config = json.loads((folder / "config.json").read_text())
    shape = (
        "hidden_size",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "rope_theta",
    )
    assert [config[key] for key in shape] == [WIDE, HEADS, NARROW, SIZE, 1e5]
    assert (config["eos_token_id"], config["pad_token_id"], config["vocab_size"]) == (
        2,
        2,
        8,
    )
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.encode("hi hi<|im_end|>").ids == [6, 7, 2]
    assert tokenizer.decode([6, 7, 2]) == "hi hi"
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    assert (settings["bos_token"], settings["unk_token"]) == (
        "<|im_start|>",
        "<|endoftext|>",
    )
    assert (folder / "chat_template.jinja").read_text() == "{{ messages }}"


def test_an_adapter_is_merged_before_rounding_and_brings_its_template(
    source: Path, tmp_path: Path, wanted: dict[str, NDArray[np.float32]]
) -> None:
    rng = np.random.default_rng(1)
    factors = rng.normal(size=(2, WIDE)), rng.normal(size=(WIDE, 2))
    narrow, wide = (factor.astype(np.float32) for factor in factors)
    folder = tmp_path / "tuned"
    folder.mkdir()
    smollm2.convert(source, folder, Adapter({Q: (narrow, wide)}, 2.0, "own"))
    found = load_file(folder / "model.safetensors")
    merged = wanted[Q] + 2 * wide @ narrow
    assert np.array_equal(found[Q], merged.astype(ml_dtypes.bfloat16))
    for name in set(wanted) - {Q}:
        assert np.array_equal(found[name], wanted[name]), name
    assert (folder / "chat_template.jinja").read_text() == "own"


def test_an_adapter_for_other_tensors_is_refused(source: Path, tmp_path: Path) -> None:
    narrow, wide = np.zeros((2, 99), np.float32), np.zeros((WIDE, 2), np.float32)
    for name in (Q, "model.layers.1.mlp.up_proj.weight"):
        adapter = Adapter({name: (narrow, wide)}, 1.0, "own")
        with pytest.raises(ModelError, match="has no such tensor"):
            smollm2.convert(source, tmp_path, adapter)
        assert not (tmp_path / "model.safetensors").exists()


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
        f"base_model.model.{NAMED}.lora_A.weight": np.array(
            [[1, 2, 3], [0, 1, 0]], np.float32
        ),
        f"base_model.model.{NAMED}.lora_B.weight": np.array(
            [[1, 0], [0, 2]], np.float32
        ),
    }
    save_file(factors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps(CONFIG | changes))
    (folder / "chat_template.jinja").write_text("own")
    return folder


def test_an_adapter_is_read_with_its_scale(tmp_path: Path) -> None:
    found = tuned(write(tmp_path), BASE)
    ((name, (narrow, wide)),) = found.factors.items()
    assert name == f"{NAMED}.weight"
    assert (narrow.shape, wide.shape, found.scale) == ((2, 3), (2, 2), 3)
    assert narrow.dtype == np.float32
    root = tuned(write(tmp_path, use_rslora=True), BASE)
    assert root.scale == pytest.approx(6 / 2**0.5)


OTHER = "HuggingFaceTB/SmolLM-135M-Instruct"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        *(
            (changes, "only plain LoRA")
            for changes in (
                {"use_dora": True},
                {"bias": "all"},
                {"rank_pattern": {"q_proj": 4}},
            )
        ),
        *(
            ({key: ["lm_head"]}, "only plain LoRA")
            for key in ("modules_to_save", "peft_type")
        ),
        ({"base_model_name_or_path": OTHER}, f"this one is of {OTHER}"),
    ],
)
def test_an_adapter_of_another_kind_or_base_is_refused(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ModelError, match=words):
        tuned(write(tmp_path, **changes), BASE)
