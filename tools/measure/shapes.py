"""The models that are measured: demo models, and shapes of larger ones with random weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from refusal_checks.engines import vllm
from refusal_checks.models.model_names import Served, parse_candidate
from refusal_checks.models.provided_models import ProvidedModel
from tools.measure.printing import say

SHAPES: Mapping[str, Mapping[str, object]] = {
    # Llama-3.1-8B
    "8b": {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 128256,
        "rope_theta": 500000.0,
    },
    "tiny": {
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "vocab_size": 65536,
        "rope_theta": 100000.0,
    },
}
"""Configurations of Llama models by name; vLLM fills them with random weights."""

GIB = 2**30


@dataclass(frozen=True)
class Measured:
    """A model, and how an engine for it is started beside others.

    Attributes:
        path: the folder that an engine loads.
        is_random: True if the folder has no weights, so that vLLM makes them up.
        cache: bytes of its KV cache on a GPU.
        sequences: most answers that it generates at one time.
    """

    name: str
    path: str
    is_random: bool
    cache: int
    sequences: int

    @property
    def arguments(self) -> dict[str, object]:
        """Arguments of vLLM that the server and the user's script have in common."""
        arguments: dict[str, object] = {
            "max_num_seqs": self.sequences,
            "max_model_len": 4096,
        }
        if self.is_random:
            arguments["load_format"] = "dummy"
        if not vllm.runs_on_cpu():
            # Several engines that load at once cannot measure what memory is free.
            arguments["kv_cache_memory_bytes"] = self.cache
            arguments["gpu_memory_utilization"] = 0.05
        return arguments


def measured(name: str, folder: Path, tokenizer: str = "demo:base") -> Measured:
    """Prepare a model to be measured.

    Args:
        name: a key of ``SHAPES``, or whatever ``--candidate`` takes.
        folder: where to put the configuration of a shape.
        tokenizer: a model whose tokenizer and chat template a shape gets.
    """
    if name not in SHAPES:
        return Measured(name, weights(name), False, 6 * GIB, 1024)
    made = folder / name
    source = weights(tokenizer)
    shutil.copytree(source, made, ignore=shutil.ignore_patterns("*.safetensors*"))
    config = json.loads((made / "config.json").read_text())
    config |= {**SHAPES[name], "tie_word_embeddings": False}
    config.pop("rope_parameters", None)
    (made / "config.json").write_text(json.dumps(config))
    return Measured(name, str(made), True, 8 * GIB, 192)


def weights(model: str) -> str:
    """The folder or name that vLLM loads for a candidate; demo weights are made if need be.

    The demo package need not be installed for it: to be imported is enough.
    """
    if model.startswith("demo:"):
        provided = _demo(model)
        if provided.weights and not provided.weights.is_ready():
            provided.weights.make(say)
        return str(provided.place)
    candidate = parse_candidate(model)
    assert isinstance(candidate, Served), "an engine is started for it"
    return candidate.path


def _demo(name: str) -> ProvidedModel:
    from refusal_checks_demo import provide  # optional: needs packages of its own

    for model in provide():
        if model.name == name:
            return model
    raise ValueError(f"no demo model is called {name}")
