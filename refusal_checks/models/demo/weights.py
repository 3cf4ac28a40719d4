"""Weights in safetensors files, read, changed by an adapter and written with NumPy alone."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refusal_checks.core.errors import ModelError
from refusal_checks.models.demo.conversion import NAME

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
"""The bits of bfloat16, which NumPy has no type for."""

Making = tuple[tuple[int, ...], Iterator[Halves]]
"""A tensor's shape, and its content, which is made when it is written."""


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter in peft's files.

    Attributes:
        factors: both matrices of each tensor that it changes, by the tensor's name.
        scale: of their product.
    """

    factors: Mapping[str, tuple[Floats, Floats]]
    scale: float

    def added_to(self, name: str, tensor: Floats) -> Floats:
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
    factors: dict[str, dict[str, Floats]] = {}
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


def read_tensors(path: Path) -> Iterator[tuple[str, Floats]]:
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


def write_tensors(path: Path, tensors: Mapping[str, Making]) -> None:
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


def bfloat16(tensor: Floats) -> Halves:
    """Rounded to the nearest bfloat16, ties to even; finite numbers only."""
    bits = np.ascontiguousarray(tensor).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
