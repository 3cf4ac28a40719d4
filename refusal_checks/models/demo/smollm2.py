"""SmolLM2-135M-Instruct: from the GGUF file of a Python package to a folder that engines load.

Tensor by tensor, with NumPy alone: neither torch nor transformers is loaded, and no more than one
tensor is in memory in full precision. The files are those that transformers makes of the same GGUF
file, rounded once; ``tests/e2e/test_demo_models.py`` compares the two.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from refusal_checks.core.errors import ModelError
from refusal_checks.models.demo.conversion import NAME

if TYPE_CHECKING:
    from gguf import GGUFReader


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

_CONTROL = 3
"""The type of a control token in GGUF files."""


def convert(source: Path, folder: Path, adapter: Adapter | None, template: str | None) -> None:
    """Write weights, settings and tokenizer into a folder, which exists.

    Args:
        source: the GGUF file.
        adapter: merged into the weights.
        template: the chat template; None for the model's own.

    Raises:
        ModelError: the adapter is one of another model.
        OSError: a file cannot be written.
    """
    from gguf import GGUFReader

    reader = GGUFReader(source)
    if adapter:
        _require_fitting(adapter, reader)
    write_tensors(folder / "model.safetensors", _rounded(reader, adapter))
    fields = {name: field.contents() for name, field in reader.fields.items()}
    _write_json(folder / "config.json", _config(fields))
    ends = {f"{end}_token_id": fields[f"tokenizer.ggml.{end}_token_id"] for end in ("bos", "eos")}
    padding = fields["tokenizer.ggml.padding_token_id"]
    _write_json(folder / "generation_config.json", {**ends, "pad_token_id": padding})
    _write_tokenizer(folder, fields)
    own: str = fields["tokenizer.chat_template"]
    (folder / "chat_template.jinja").write_text(own if template is None else template, "utf-8")


def _rounded(reader: GGUFReader, adapter: Adapter | None) -> dict[str, LazyTensor]:
    from gguf.quants import dequantize

    heads, narrow = (
        int(reader.fields[f"llama.attention.{count}"].contents())
        for count in ("head_count", "head_count_kv")
    )

    def content(name: str, tensor: Any) -> Iterator[BFloat16Bits]:
        whole = dequantize(tensor.data, tensor.tensor_type).reshape(_shape(tensor))
        if "q_proj" in name or "k_proj" in name:
            whole = _in_halves(whole, heads if "q_proj" in name else narrow)
        yield bfloat16(adapter.added_to(name, whole) if adapter else whole)

    named = {_name(tensor.name): tensor for tensor in reader.tensors}
    return {name: (_shape(tensor), content(name, tensor)) for name, tensor in named.items()}


def _require_fitting(adapter: Adapter, reader: GGUFReader) -> None:
    """Raise ModelError if the adapter changes what the model does not have."""
    shapes = {_name(tensor.name): _shape(tensor) for tensor in reader.tensors}
    for name, (narrow, wide) in adapter.factors.items():
        if shapes.get(name) != (wide.shape[0], narrow.shape[-1]):
            raise ModelError(f"the adapter is of another model: {NAME} has no such tensor {name}")


def _name(name: str) -> str:
    """A tensor's name in transformers."""
    *block, kind, end = name.split(".")
    layer = f"layers.{block[1]}." if block else ""
    return f"model.{layer}{_TENSORS[kind]}.{end}"


def _shape(tensor: Any) -> tuple[int, ...]:
    """GGUF counts dimensions from the last to the first."""
    return tuple(map(int, reversed(tensor.shape)))


def _in_halves(tensor: Float32Array, heads: int) -> Float32Array:
    """Rows as transformers rotates them: halves of a head, where GGUF has pairs of rows."""
    pairs = tensor.reshape(heads, -1, 2, tensor.shape[-1])
    return pairs.swapaxes(1, 2).reshape(tensor.shape)


def _config(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The model's settings, as transformers calls them."""
    llama = {name.removeprefix("llama."): value for name, value in fields.items()}
    tokens = {name.removeprefix("tokenizer.ggml."): value for name, value in fields.items()}
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "bos_token_id": tokens["bos_token_id"],
        "dtype": "bfloat16",
        "eos_token_id": tokens["eos_token_id"],
        "head_dim": llama["rope.dimension_count"],
        "hidden_act": "silu",
        "hidden_size": llama["embedding_length"],
        "intermediate_size": llama["feed_forward_length"],
        "max_position_embeddings": llama["context_length"],
        "num_attention_heads": llama["attention.head_count"],
        "num_hidden_layers": llama["block_count"],
        "num_key_value_heads": llama["attention.head_count_kv"],
        "pad_token_id": tokens["padding_token_id"],
        "rms_norm_eps": llama["attention.layer_norm_rms_epsilon"],
        "rope_theta": llama["rope.freq_base"],
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "vocab_size": llama["vocab_size"],
    }


def _write_tokenizer(folder: Path, fields: Mapping[str, Any]) -> None:
    """The tokenizer, as transformers reads it from the file: GPT-2's pieces."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

    given = {name.removeprefix("tokenizer.ggml."): value for name, value in fields.items()}
    tokens: list[str] = given["tokens"]
    pairs = [tuple(merge.split(" ", 1)) for merge in given["merges"]]
    model = models.BPE(
        {token: number for number, token in enumerate(tokens)},
        pairs,
        continuing_subword_prefix="",
        end_of_word_suffix="",
    )
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing("$A:0", "$A:0 $B:1", [])
    control = [
        token for token, kind in zip(tokens, given["token_type"], strict=True) if kind == _CONTROL
    ]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in control])
    tokenizer.save(str(folder / "tokenizer.json"))
    named = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    settings = {
        f"{short}_token": tokens[given[f"{long}_token_id"]] for short, long in named.items()
    }
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    _write_json(folder / "tokenizer_config.json", settings)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", "utf-8")


Float32Array = NDArray[np.float32]
BFloat16Bits = NDArray[np.uint16]
"""The bits of bfloat16, which NumPy has no type for."""

LazyTensor = tuple[tuple[int, ...], Iterator[BFloat16Bits]]
"""A tensor's shape, and its content, which is made when it is written."""


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter in peft's files.

    Attributes:
        factors: both matrices of each tensor that it changes, by the tensor's name.
        scale: of their product.
    """

    factors: Mapping[str, tuple[Float32Array, Float32Array]]
    scale: float

    def added_to(self, name: str, tensor: Float32Array) -> Float32Array:
        """The tensor with the adapter's part, if it has one for it."""
        if name not in self.factors:
            return tensor
        narrow, wide = self.factors[name]
        return tensor + np.float32(self.scale) * (wide @ narrow)


def read_adapter(folder: Path) -> Adapter:
    """Read a LoRA adapter.

    Raises:
        ModelError: it is of another model, or of a kind that cannot be merged.
        OSError: a file cannot be read.
        ValueError, KeyError, TypeError, struct.error: a file is not what it should be.
    """
    config = json.loads((folder / "adapter_config.json").read_text("utf-8"))
    base = str(config["base_model_name_or_path"])
    if base.rstrip("/").rpartition("/")[2] != NAME:
        raise ModelError(f"{folder}: use an adapter of {NAME}: this one is of {base}")
    unknown = [key for key in _UNMERGED if config.get(key) not in (None, False, "none", [], {})]
    if config.get("peft_type") != "LORA" or unknown:
        raise ModelError(
            f"{folder}: only plain LoRA adapters can be merged, without {', '.join(_UNMERGED)}"
        )
    rank = int(config["r"])
    root = math.sqrt(rank) if config.get("use_rslora") else rank
    factors: dict[str, dict[str, Float32Array]] = {}
    for key, tensor in read_tensors(folder / "adapter_model.safetensors"):
        name, _, part = key.removeprefix("base_model.model.").rpartition(".lora_")
        factors.setdefault(f"{name}.weight", {})[part[:1]] = tensor
    pairs = {name: (parts["A"], parts["B"]) for name, parts in factors.items()}
    return Adapter(pairs, config["lora_alpha"] / root)


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


def read_tensors(path: Path) -> Iterator[tuple[str, Float32Array]]:
    """The tensors of a safetensors file, which are bfloat16 or float32, in their order.

    Raises:
        OSError, ValueError, KeyError, TypeError, struct.error: it is not such a file.
    """
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        if entry["dtype"] == "BF16":
            bits = np.frombuffer(data[begin:end], np.uint16).astype(np.uint32) << 16
            tensor = bits.view(np.float32)
        elif entry["dtype"] == "F32":
            tensor = np.frombuffer(data[begin:end], np.float32)
        else:
            raise ValueError(f"{path}: {name} is neither BF16 nor F32 but {entry['dtype']}")
        yield name, tensor.reshape(entry["shape"])


def write_tensors(path: Path, tensors: Mapping[str, LazyTensor]) -> None:
    """Write a safetensors file of bfloat16 tensors, one after the other."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (shape, _) in tensors.items():
        begin, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, content in tensors.values():
            for tensor in content:
                file.write(tensor.tobytes())


def bfloat16(tensor: Float32Array) -> BFloat16Bits:
    """Rounded to the nearest bfloat16, ties to even; finite numbers only."""
    bits = np.ascontiguousarray(tensor).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
