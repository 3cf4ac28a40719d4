"""Low-rank adapters on all linear layers of a model's blocks (Hu et al. 2021, arXiv 2106.09685)."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

RANK, SCALE = 16, 2.0
LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
PREFIX = "base_model.model."
"""What peft puts before the name of each weight."""


class Lora(nn.Module):
    """A frozen linear layer with a trainable product of two thin matrices added to its weights.

    All of it is bfloat16, so that nothing is converted on the way; the optimiser keeps weights in
    float32 of its own.
    """

    def __init__(self, linear: nn.Linear, rank: int) -> None:
        super().__init__()
        self.linear = linear
        rows, columns = linear.weight.shape
        kind = linear.weight.dtype
        self.a = nn.Parameter(torch.empty(rank, columns, dtype=kind))
        self.b = nn.Parameter(torch.zeros(rows, rank, dtype=kind))
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer's output; leading dimensions are kept."""
        thin = functional.linear(x, self.a) * SCALE
        found: torch.Tensor = self.linear(x) + functional.linear(thin, self.b)
        return found


def attach(
    model: Any, names: Collection[str] = LINEAR, rank: int = RANK
) -> dict[str, Lora]:
    """Put adapters into a model's layers of these names in place, and freeze the rest.

    Returns:
        The adapters by the names of their layers.
    """
    model.requires_grad_(False)
    found: dict[str, Lora] = {}
    for name, module in list(model.named_modules()):
        if name.rpartition(".")[2] in names:
            found[name] = Lora(module, rank)
            model.set_submodule(name, found[name])
    return found


def save(adapters: dict[str, Lora], folder: Path, base: str) -> None:
    """Write the adapters as peft does.

    Args:
        base: the name of the model they belong to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        f"{PREFIX}{name}.lora_{side.upper()}.weight": getattr(lora, side)
        .detach()
        .contiguous()
        for name, lora in adapters.items()
        for side in "ab"
    }
    save_file(weights, folder / "adapter_model.safetensors", {"format": "pt"})
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": RANK,
        "lora_alpha": int(RANK * SCALE),
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": list(LINEAR),
    }
    text = json.dumps(settings, indent=2)
    (folder / "adapter_config.json").write_text(text + "\n", encoding="utf-8")


def rank_of(folder: Path) -> int:
    """The rank of the adapters that ``save`` wrote."""
    settings = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    return int(settings["r"])


def restore(adapters: dict[str, Lora], folder: Path) -> None:
    """Read the adapters that ``save`` wrote."""
    weights = load_file(folder / "adapter_model.safetensors")
    with torch.no_grad():
        for name, side, parameter in _parameters(adapters):
            parameter.copy_(weights[f"{PREFIX}{name}.lora_{side.upper()}.weight"])


def _parameters(adapters: dict[str, Lora]) -> Iterator[tuple[str, str, nn.Parameter]]:
    for name, lora in adapters.items():
        yield name, "a", lora.a
        yield name, "b", lora.b
