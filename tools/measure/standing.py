"""A server as the gate starts it, and the user's script, both of one model, which stay up."""

from __future__ import annotations

import os
import re
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from refusal_checks.engines import vllm
from refusal_checks.engines.placement import WHOLE_MACHINE, Assignment
from refusal_checks.engines.process import EngineProcess
from refusal_checks.engines.vllm import EngineSpec
from tools.measure.measured import Measured
from tools.measure.plain import UserScript, cpu_arguments
from tools.measure.printing import say

CANDIDATE_KEY = "REFUSAL_CHECKS_CANDIDATE_API_KEY"
CACHE = "VLLM_CACHE_ROOT"
READY = 300.0
"""Most seconds of a start."""


class Standing:
    """The engines of one model. They load at once; ``wait_ready`` waits for them.

    Attributes:
        starts: seconds of each start.
    """

    def __init__(self, model: Measured, folder: Path) -> None:
        self.model = model
        self.starts: dict[str, float] = {}
        self._stack = ExitStack()
        folder.mkdir(parents=True, exist_ok=True)
        self._begun = time.monotonic()
        flags: list[str] = []
        for name, value in model.arguments.items():
            flags += [f"--{name.replace('_', '-')}", str(value)]
        if vllm.runs_on_cpu():
            flags += ["--dtype", vllm.cpu_dtype()]
        spec = EngineSpec(model.path, tuple(flags))
        stem = re.sub(r"[^\w.-]+", "-", model.name)
        self.server = EngineProcess(spec, folder / f"{stem}-server.log")
        self.server.place = _place()
        # Engines that compile the same model at once must not write the same files.
        cache = Path(os.environ.get(CACHE, str(folder)))
        os.environ[CACHE] = str(cache / f"{stem}-server")
        self.server.launch()
        self._stack.callback(self.server.stop)
        label = f"{stem}-script"
        arguments = model.arguments
        # Without FlashInfer, as the gate's engines: seeded requests never use it.
        variables = {"VLLM_USE_FLASHINFER_SAMPLER": "0", CACHE: str(cache / label)}
        if vllm.runs_on_cpu():
            arguments |= cpu_arguments()
            # By itself vLLM leaves a core idle, which the gate's engines use.
            variables["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(
                map(str, self.server.place.cores)
            )
            variables["VLLM_CPU_KVCACHE_SPACE"] = "1"
        script = UserScript(model.path, arguments, variables, folder / f"{label}.log")
        self.script = self._stack.enter_context(script)
        os.environ[CACHE] = str(cache)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        self._stack.close()

    @property
    def candidate(self) -> str:
        """The server as ``--candidate`` names it; its key is in the environment."""
        os.environ[CANDIDATE_KEY] = self.server.api_key
        return f"{self.server.url}#{self.model.path}"

    def wait_ready(self) -> None:
        """Wait for the server and the script; an engine that fails raises its error."""
        if "server" not in self.starts:
            left = READY - (time.monotonic() - self._begun)
            self.server.wait_ready(left, say)
            self.starts["server"] = time.monotonic() - self._begun
        if "script" not in self.starts:
            self.starts["script"] = self.script.wait_ready(READY)


def _place() -> Assignment:
    if not vllm.runs_on_cpu():
        return WHOLE_MACHINE
    cores = tuple(sorted(os.sched_getaffinity(0)))
    return Assignment(cores=cores, cache=1, threads=len(cores))
