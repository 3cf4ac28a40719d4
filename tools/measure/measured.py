"""The models that are measured."""

from __future__ import annotations

from dataclasses import dataclass

from refusal_checks.engines import vllm
from refusal_checks.models.model_names import Served, parse_candidate
from refusal_checks.models.provided_models import ProvidedModel
from tools.measure.printing import say

CACHE = 6 * 2**30
"""Bytes of an engine's KV cache on a GPU: engines that load at once cannot measure what is free."""

SEQUENCES = 1024
"""Most answers that an engine generates at one time."""


@dataclass(frozen=True)
class Measured:
    """A model, and the folder that an engine loads."""

    name: str
    path: str

    @property
    def arguments(self) -> dict[str, object]:
        """Arguments of vLLM that the server and the user's script have in common."""
        arguments: dict[str, object] = {
            "max_num_seqs": SEQUENCES,
            "max_model_len": 4096,
        }
        if not vllm.runs_on_cpu():
            arguments["kv_cache_memory_bytes"] = CACHE
            arguments["gpu_memory_utilization"] = 0.05
        return arguments


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
