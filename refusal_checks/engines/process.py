"""One engine: its guarded server process, and the connection to it."""

import http.client
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import psutil

from refusal_checks.core.errors import EngineDiedError, EngineStartError
from refusal_checks.core.text import sanitize
from refusal_checks.engines import vllm
from refusal_checks.engines.placement import WHOLE_MACHINE
from refusal_checks.engines.servers import Say
from refusal_checks.engines.vllm import EngineSpec
from refusal_checks.io.files import make_private_folder

POLL = 0.5
"""Seconds between two health checks of a starting server."""

FIRST_REPORT = 10.0
"""Seconds before the first line that a server is still loading; doubled each time."""

STOP_TIMEOUT, GROUP_TIMEOUT = 15.0, 10.0
"""Seconds for a server to end before its process group is killed, and then to be gone."""

LOG_READ, LOG_WIDTH, LOG_SEARCHED, LOG_SHOWN = 2**20, 2_000, 100, 25
"""How much of a log's end is used: bytes read, characters per line, lines searched for an error,
and lines shown in a message."""

_NOISE = re.compile(r'leaked|nanobind|skipped remainder|"(GET|POST) /')
"""Log lines that never explain why the server ended."""

_ERROR = re.compile(r"(?<![\w./-])(?:[\w.]*(?:Error|Exception)|[\w./-]+: error): .+")
"""The last line of a traceback, or argparse's message."""

_NO_CAUSE = re.compile(
    r"root cause above|\(above\) for the root cause|\bWARNING \d", re.IGNORECASE
)
"""Lines that refer to an error that another process printed, or warn of one that may come."""


class EngineProcess:
    """One engine's server process, which can be restarted with the same address and key.

    Attributes:
        log: file for everything that the server prints; each start appends to it.
        place: its assignment at the next start.
    """

    def __init__(self, spec: EngineSpec, log: Path) -> None:
        self.spec = spec
        self.log = log
        self.place = WHOLE_MACHINE
        self.api_key = secrets.token_urlsafe(24)
        # Free now; ``_has_port`` notices if somebody takes it before the engine does.
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._launched, self._next_report = 0.0, FIRST_REPORT
        self._status = ""

    @property
    def url(self) -> str:
        """The base URL of its API; it stays the same after a restart."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def command(self) -> list[str]:
        return vllm.command(self.spec, self.port, self.place)

    def launch(self) -> None:
        """Start the server under a supervisor, which ends it when this process dies."""
        self.stop()
        supervisor = [sys.executable, "-m", "refusal_checks.engines.supervisor"]
        cores = ",".join(map(str, self.place.cores)) or "all"
        try:
            make_private_folder(self.log.parent)
            with self.log.open("ab") as log:
                self._log_start, self._status = log.tell(), ""
                self._launched, self._next_report = time.monotonic(), FIRST_REPORT
                self._process = subprocess.Popen(
                    [*supervisor, cores, vllm.VITAL, *self.command],
                    stdin=subprocess.PIPE,  # closes when this process dies, however it does
                    stdout=subprocess.PIPE,  # the supervisor writes the exit status
                    stderr=log,
                    env=vllm.environment(self.api_key, self.spec, self.place),
                    start_new_session=True,  # Ctrl-C must reach this process alone
                )
        except OSError as fault:
            where = f": {fault.filename}" if fault.filename else ""
            raise EngineStartError(
                f"vLLM cannot be started: {self.spec.model}: {fault.strerror}{where}"
            ) from fault

    def wait_ready(self, timeout: float, progress: Say = lambda line: None) -> None:
        """Wait until ``is_ready``."""
        while not self.is_ready(timeout, progress):
            time.sleep(POLL)

    def is_ready(self, timeout: float, progress: Say = lambda line: None) -> bool:
        """True if the server passes its health check, False if it still may.

        Args:
            timeout: seconds from the launch.

        Raises:
            EngineStartError: it has ended or takes too long; it is stopped.
        """
        elapsed = time.monotonic() - self._launched
        problem = ""
        if not self.is_running():
            problem = "ended before it was ready"
        elif is_healthy(f"http://127.0.0.1:{self.port}{vllm.HEALTH}"):
            if self._has_port():
                progress(f"vLLM is ready after {elapsed:.0f} s: {self.spec.model}")
                return True
            problem = (
                "did not get its port: a process that is not this engine's answers on "
                f"127.0.0.1:{self.port}; run the same command again, which chooses another port"
            )
        elif elapsed > timeout:
            problem = f"was not ready after {timeout:.0f} s"
        if problem:
            error = EngineStartError(self.report(problem))
            self.stop()
            raise error
        self._say_loading(elapsed, progress)
        return False

    def _say_loading(self, elapsed: float, progress: Say) -> None:
        """Show the last line of the log at growing intervals."""
        if elapsed < self._next_report:
            return
        # The first start of a large model takes minutes, and its log is kept.
        self._next_report = 2 * max(self._next_report, elapsed)
        lines = self._read_log().splitlines() or ["nothing"]
        last = sanitize(lines[-1], 100)
        progress(
            f"vLLM is loading {self.spec.model}: {elapsed:.0f} s; its log ends with: {last}"
        )

    def _read_log(self) -> str:
        """The end of the server's output since its start; empty if the file is gone."""
        with suppress(FileNotFoundError), self.log.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            # Not what an earlier start printed; and a log may have grown to gigabytes.
            log.seek(max(self._log_start, size - LOG_READ))
            return log.read().decode(errors="replace")
        return ""

    def _has_port(self) -> bool:
        """False if another process listens on the port, which must not get the key.

        The program of ``engine.command`` may start a container, whose processes cannot be seen.
        """
        if self.spec.program or self._process is None:
            return True
        offspring = []
        with suppress(psutil.Error):
            offspring = psutil.Process(self._process.pid).children(recursive=True)
        for process in (*offspring, *_members(self._process.pid)):
            with suppress(psutil.Error):
                for connection in process.net_connections("tcp"):
                    is_server = connection.status == psutil.CONN_LISTEN
                    if is_server and connection.laddr.port == self.port:
                        return True
        return False

    def is_running(self) -> bool:
        """True from launch to end, including while it loads."""
        return self._process is not None and self._process.poll() is None

    def require_running(self) -> None:
        """Raise EngineDiedError, with the end of its log, if it has ended."""
        if not self.is_running():
            raise EngineDiedError(self.report("ended during the run"))

    def ask_to_end(self) -> None:
        """Tell the server to end, without waiting as ``stop`` does."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def stop(self) -> None:
        """End the server and every process it started; does nothing if called again."""
        process = self._process
        if process is None or process.stdout is None or process.stdout.closed:
            return
        self.ask_to_end()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT)
        # Kill what it may have left behind, until no device is held.
        deadline = time.monotonic() + GROUP_TIMEOUT
        with suppress(ProcessLookupError, PermissionError):
            while time.monotonic() < deadline:
                # Again and again: a process may have forked before the signal reached it.
                os.killpg(process.pid, signal.SIGKILL)
                if not _members(process.pid):
                    break
                time.sleep(0.02)
        with process:  # closes its pipes and reaps it
            pass

    def report(self, what: str) -> str:
        """What happened, the last error in the log, the command, and the log's last lines."""
        lines = []
        for line in self._read_log().splitlines():
            if not _NOISE.search(line[:LOG_WIDTH]):
                lines.append(line[:LOG_WIDTH])
        errors = []
        for line in lines[-LOG_SEARCHED:]:
            error = _ERROR.search(line)
            # vLLM's server ends with "see root cause above", which tells nothing.
            if error and not _NO_CAUSE.search(line):
                errors.append(f"last error in its log: {error[0][:500]}")
        shown = [f"  {line}" for line in lines[-LOG_SHOWN:]]
        return "\n".join(
            [
                f"vLLM {what}: {self.spec.model}",
                *errors[-1:],
                f"command: {' '.join(self.command)}",
                f"exit status: {self._exit_status()}",
                f"log: {self.log}",
                *shown,
            ]
        )

    def _exit_status(self) -> str:
        if self.is_running() or self._process is None or self._process.stdout is None:
            return "none, it was still running"
        if self._process.stdout.closed:
            return self._status or "none, it was stopped"
        self._status = self._status or self._process.stdout.read().decode()
        return self._status or "unknown, it was killed"


def _members(group: int) -> list[psutil.Process]:
    """The live processes of a process group."""
    members = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError):
            is_member = os.getpgid(process.pid) == group
            if is_member and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
    return members


def is_healthy(url: str) -> bool:
    """True if a health check answers with status 200 within two seconds."""
    # Without the proxies of the environment, which cannot reach this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=2) as response:
            return bool(response.status == 200)
    except (OSError, http.client.HTTPException):
        return False
