"""SmolLM2-135M-Instruct: from the GGUF file of a Python package to a folder that engines load.

It loads neither torch nor transformers, and holds only one tensor at a time in full precision. The
files equal those that transformers makes from the same GGUF file, rounded once;
``tests/e2e/test_demo_models.py`` compares the two.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ml_dtypes import bfloat16
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from refusal_checks.core.errors import ModelError
from refusal_checks.io.files import write_json

if TYPE_CHECKING:
    from gguf import GGUFReader

Float32Array = NDArray[np.float32]

_TENSORS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_norm": "input_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_norm": "post_attention_layernorm",
    "token_embd": "embed_tokens",
    "output_norm": "norm",
}
"""Names of tensors in GGUF files of Llama's architecture, and in transformers."""

_CONTROL = 3  # the type of a control token in GGUF files

_UNMERGED = (
    "alpha_pattern",
    "bias",
    "fan_in_fan_out",
    "layer_replication",
    "modules_to_save",
    "rank_pattern",
    "use_dora",
)
"""What peft's adapters may have besides two factors a tensor."""


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter: both matrices of each tensor that it changes, and the scale of their product.

    Tensors have transformers' names.
    """

    factors: Mapping[str, tuple[Float32Array, Float32Array]]
    scale: float
    template: str  # the chat template that goes with it


def tuned(folder: Path, base: str = "SmolLM2-135M-Instruct") -> Adapter:
    """Read a folder that peft wrote.

    Raises:
        ModelError: the folder has no plain LoRA adapter of the base.
    """
    try:
        template = (folder / "chat_template.jinja").read_text("utf-8")
        config = json.loads((folder / "adapter_config.json").read_text("utf-8"))
        _require_plain(config, base, folder)
        rank = int(config["r"])
        root = math.sqrt(rank) if config.get("use_rslora") else rank
        scale = config["lora_alpha"] / root
        return Adapter(_factors(folder / "adapter_model.safetensors"), scale, template)
    except (ValueError, KeyError, TypeError, SafetensorError) as fault:
        raise ModelError(f"{folder}: not a LoRA adapter of {base}: {fault!r}") from None


def _require_plain(config: Mapping[str, Any], base: str, folder: Path) -> None:
    own = str(config["base_model_name_or_path"])
    if own.rstrip("/").rpartition("/")[2] != base:
        raise ModelError(f"{folder}: use an adapter of {base}: this one is of {own}")
    unset: tuple[object, ...] = (None, False, "none", [], {})
    has_more = any(config.get(key) not in unset for key in _UNMERGED)
    if config.get("peft_type") != "LORA" or has_more:
        raise ModelError(
            f"{folder}: only plain LoRA adapters can be merged, without {', '.join(_UNMERGED)}"
        )


def _factors(file: Path) -> dict[str, tuple[Float32Array, Float32Array]]:
    parts: dict[str, dict[str, Float32Array]] = {}
    for key, tensor in load_file(file).items():
        # Names are like base_model.model.LAYER.lora_A.weight, or lora_A.default.weight.
        name, _, part = key.removeprefix("base_model.model.").rpartition(".lora_")
        side = part[:1]
        parts.setdefault(f"{name}.weight", {})[side] = tensor.astype(np.float32)
    return {name: (sides["A"], sides["B"]) for name, sides in parts.items()}


def convert(source: Path, folder: Path, adapter: Adapter | None) -> None:
    """Write weights, settings and tokenizer of a GGUF file into an existing folder.

    An adapter is merged into the weights, and its chat template replaces the model's.
    """
    from gguf import GGUFReader

    reader = GGUFReader(source)
    if adapter:
        _require_fitting(adapter, reader)
    weights = {
        _name(tensor.name): _rounded(reader, tensor, adapter)
        for tensor in reader.tensors
    }
    (folder / "model.safetensors").write_bytes(save(weights, {"format": "pt"}))

    fields = {name: field.contents() for name, field in reader.fields.items()}
    tokens = {
        name.removeprefix("tokenizer.ggml."): value for name, value in fields.items()
    }
    ids = {
        "bos_token_id": tokens["bos_token_id"],
        "eos_token_id": tokens["eos_token_id"],
        "pad_token_id": tokens["padding_token_id"],
    }
    write_json(folder / "config.json", _config(fields) | ids)
    write_json(folder / "generation_config.json", ids)
    _write_tokenizer(folder, tokens)
    template = adapter.template if adapter else str(fields["tokenizer.chat_template"])
    (folder / "chat_template.jinja").write_text(template, "utf-8")


def _require_fitting(adapter: Adapter, reader: GGUFReader) -> None:
    shapes = {_name(tensor.name): _shape(tensor) for tensor in reader.tensors}
    for name, (narrow, wide) in adapter.factors.items():
        if shapes.get(name) != (wide.shape[0], narrow.shape[-1]):
            raise ModelError(
                f"the adapter is of another model: the base has no such tensor {name}"
            )


def _rounded(reader: GGUFReader, tensor: Any, adapter: Adapter | None) -> NDArray[Any]:
    """A tensor in transformers' layout, with the adapter's part added, in bfloat16."""
    from gguf.quants import dequantize

    name = _name(tensor.name)
    whole = dequantize(tensor.data, tensor.tensor_type).reshape(_shape(tensor))
    if "q_proj" in name or "k_proj" in name:
        # GGUF has pairs of rows where transformers rotates the halves of a head.
        count = "head_count" if "q_proj" in name else "head_count_kv"
        heads = int(reader.fields[f"llama.attention.{count}"].contents())
        pairs = whole.reshape(heads, -1, 2, whole.shape[-1])
        whole = pairs.swapaxes(1, 2).reshape(whole.shape)
    if adapter and name in adapter.factors:
        narrow, wide = adapter.factors[name]
        whole = whole + np.float32(adapter.scale) * (wide @ narrow)
    return whole.astype(bfloat16)


def _name(name: str) -> str:
    *block, kind, end = name.split(".")
    layer = f"layers.{block[1]}." if block else ""
    return f"model.{layer}{_TENSORS[kind]}.{end}"


def _shape(tensor: Any) -> tuple[int, ...]:
    """A tensor's shape; GGUF lists dimensions from last to first."""
    return tuple(map(int, reversed(tensor.shape)))


def _config(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "dtype": "bfloat16",
        "head_dim": fields["llama.rope.dimension_count"],
        "hidden_act": "silu",
        "hidden_size": fields["llama.embedding_length"],
        "intermediate_size": fields["llama.feed_forward_length"],
        "max_position_embeddings": fields["llama.context_length"],
        "num_attention_heads": fields["llama.attention.head_count"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "rms_norm_eps": fields["llama.attention.layer_norm_rms_epsilon"],
        "rope_theta": fields["llama.rope.freq_base"],
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "vocab_size": fields["llama.vocab_size"],
    }


def _write_tokenizer(folder: Path, given: Mapping[str, Any]) -> None:
    """Write the tokenizer as transformers reads it from the file: GPT-2's pieces."""
    from tokenizers import (
        AddedToken,
        Tokenizer,
        decoders,
        models,
        pre_tokenizers,
        processors,
    )

    tokens: list[str] = given["tokens"]
    model = models.BPE(
        {token: number for number, token in enumerate(tokens)},
        [tuple(merge.split(" ", 1)) for merge in given["merges"]],
        continuing_subword_prefix="",
        end_of_word_suffix="",
    )
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing("$A:0", "$A:0 $B:1", [])
    kinds = zip(tokens, given["token_type"], strict=True)
    control = [
        AddedToken(token, normalized=False) for token, kind in kinds if kind == _CONTROL
    ]
    tokenizer.add_special_tokens(control)
    tokenizer.save(str(folder / "tokenizer.json"))
    named = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    settings = {
        f"{short}_token": tokens[given[f"{long}_token_id"]]
        for short, long in named.items()
    }
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    write_json(folder / "tokenizer_config.json", settings)
