"""One engine: its server process, which runs under a guard, and the way to it."""

import asyncio
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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from refusal_checks.core.errors import EndpointError, EngineDiedError, EngineStartError
from refusal_checks.core.settings import Limits, RequestPace
from refusal_checks.core.verdicts import FINISHED
from refusal_checks.engines import kinds
from refusal_checks.engines.engine import WHOLE_MACHINE, EngineSpec
from refusal_checks.engines.servers import Say
from refusal_checks.models.client.answers import MALFORMED, require_finished
from refusal_checks.models.client.attaching import probe
from refusal_checks.models.client.capabilities import ALL, Capabilities, Support
from refusal_checks.models.client.client import CHAT, Client, RequestParams
from refusal_checks.models.client.server_errors import TransientError
from refusal_checks.models.client.transport import Access, HttpTransport
from refusal_checks.models.model_files import declared
from refusal_checks.models.names import Served

POLL = 0.5
"""Seconds between two looks at a starting server."""

STOP_TIMEOUT, GROUP_TIMEOUT = 15.0, 10.0
"""Seconds that a server may take to end before its process group is killed, and then to be gone."""

LOG_LINES, LOG_WIDTH, LOG_READ = 25, 2_000, 2**20
"""Last lines of the log that an error shows, characters of each that are read, and bytes of the log
in which they are looked for."""


class EngineProcess:
    """One engine's server, which can be started again under the same address and key.

    Attributes:
        log: file for everything that the server prints; each start adds to it.
        engine: its kind.
        place: what the next start gives it.
    """

    def __init__(self, spec: EngineSpec, log: Path) -> None:
        self.spec = spec
        self.log = log
        self.engine = kinds.get(spec.engine)
        self.place = WHOLE_MACHINE
        self.api_key = secrets.token_urlsafe(24)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._status = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def command(self) -> list[str]:
        return self.engine.command(self.spec, self.port, self.place)

    def launch(self) -> None:
        """Start the server's process, under a guard that ends it when this process dies."""
        self.stop()
        guard = [sys.executable, "-m", "refusal_checks.engines.guard"]
        cores = ",".join(map(str, self.place.cores)) or "all"
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("ab") as log:
                self._log_start, self._status = log.tell(), ""
                self._process = subprocess.Popen(
                    [*guard, cores, self.engine.vital, *self.command],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=self.engine.environment(self.api_key, self.spec, self.place),
                    start_new_session=True,
                )
        except OSError as fault:
            where = f": {fault.filename}" if fault.filename else ""
            raise EngineStartError(
                f"{self.engine.title} cannot be started: {self.spec.model}: {fault.strerror}{where}"
            ) from fault

    def wait_ready(self, timeout: float, progress: Say = lambda line: None) -> None:
        """Wait for the first good health check; without one, stop it and raise EngineStartError."""
        title, begun, next_report = self.engine.title, time.monotonic(), 10.0
        address = f"127.0.0.1:{self.port}"
        while self.is_running():
            elapsed = time.monotonic() - begun
            if is_healthy(f"http://{address}{self.engine.health}"):
                if not self._has_port():
                    problem = (
                        "did not get its port: a process that is not this engine's answers on "
                        f"{address}; run the same command again, which chooses another port"
                    )
                    break
                progress(f"{title} is ready after {elapsed:.0f} s: {self.spec.model}")
                return
            if elapsed > timeout:
                problem = f"was not ready after {timeout:.0f} s"
                break
            if elapsed >= next_report:
                next_report *= 2
                progress(f"{title} is loading {self.spec.model}: {elapsed:.0f} s")
            time.sleep(POLL)
        else:
            problem = "ended before it was ready"
        error = EngineStartError(self.report(problem))
        self.stop()
        raise error

    def _has_port(self) -> bool:
        """False if the server on its port is one that was not started here: it would get the key.

        The program of ``engine.command`` may hand over to a container, which is out of sight.
        """
        if self.spec.program or self._process is None:
            return True
        offspring = []
        with suppress(psutil.Error):
            offspring = psutil.Process(self._process.pid).children(recursive=True)
        for process in (*offspring, *_members(self._process.pid)):
            with suppress(psutil.Error):
                for each in process.net_connections("tcp"):
                    if (
                        each.status == psutil.CONN_LISTEN
                        and each.laddr.port == self.port
                    ):
                        return True
        return False

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def require_running(self) -> None:
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
        # Kill what it may have left behind, until that holds no device any more.
        deadline = time.monotonic() + GROUP_TIMEOUT
        with suppress(ProcessLookupError, PermissionError):
            while time.monotonic() < deadline:
                os.killpg(process.pid, signal.SIGKILL)
                if not _members(process.pid):
                    break
                time.sleep(0.02)
        with process:  # closes its pipes and reaps it
            pass

    def report(self, what: str) -> str:
        """What to do, as far as the log tells, and why; the command and the log's last lines."""
        text = self.log.read_bytes()[self._log_start :][-LOG_READ:].decode(
            errors="replace"
        )
        noise = re.compile(self.engine.noise)
        every = (line[:LOG_WIDTH] for line in text.splitlines())
        lines = _last_words([line for line in every if not noise.search(line)])
        cause, remedy = _cause(lines)
        said = [
            f"{remedy and f'{remedy}: '}{self.engine.title} {what}: {self.spec.model}",
            *filter(None, [cause]),
            f"command: {' '.join(self.command)}",
            f"exit status: {self._exit_status()}",
            f"log: {self.log}",
        ]
        return "\n".join([*said, *(f"  {line}" for line in lines)])

    def _exit_status(self) -> str:
        if self.is_running() or self._process is None or self._process.stdout is None:
            return "none, it was still running"
        if self._process.stdout.closed:
            return self._status or "none, it was stopped"
        self._status = self._status or self._process.stdout.read().decode()
        return self._status or "unknown, it was killed"


_CAUSE = re.compile(r"(?<![\w./-])(?:[\w.]*(?:Error|Exception)|[\w./-]+: error): .+")
"""How the line of a log that says why a program ended looks: Python's last one, or argparse's."""

_REMEDIES = {
    "error: unrecognized arguments": "check --candidate-args and --judge-args",
    "error: argument": "check --candidate-args and --judge-args",
    "not a valid model identifier": "check the name (ORG/MODEL or a folder); set HF_TOKEN if gated",
    "trust_remote_code": 'give --candidate-args="--trust-remote-code" (or --judge-args) if you '
    "trust the Python files that come with the model",
    "Repository Not Found": "check the name (ORG/MODEL or a folder); set HF_TOKEN if gated",
    "gated repo": "accept the model's conditions and set HF_TOKEN",
    "couldn't connect to": "check the name, connect this machine to the hub, or name a folder",
    "out of memory": "use a smaller model, or free the device",
}
"""What to do, by what a cause says."""


_ABOVE = re.compile(r"root cause above|\(above\) for the root cause", re.IGNORECASE)


def _last_words(lines: Sequence[str]) -> Sequence[str]:
    """The last lines; if they point to a cause above them, of another process, those up to it."""
    labels = [line.split(" ", 1)[0] for line in lines]  # vLLM's, such as (EngineCore
    above = {
        labels[n]
        for n in range(-min(LOG_LINES, len(lines)), 0)
        if _ABOVE.search(lines[n])
    }
    ends = (n for n in range(len(lines), 0, -1) if above and labels[n - 1] not in above)
    return lines[: next((n for n in ends if _cause(lines[n - 1 : n])[0]), None)][
        -LOG_LINES:
    ]


def _cause(lines: Sequence[str]) -> tuple[str, str]:
    """Why a server ended, as far as its log tells, and what to do; empty if it does not."""
    causes = (found[0] for line in reversed(lines) if (found := _CAUSE.search(line)))
    cause = next((one for one in causes if not _ABOVE.search(one)), "")
    remedy = next((what for words, what in _REMEDIES.items() if words in cause), "")
    return cause[:500], remedy


def _members(group: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError):
            if (
                os.getpgid(process.pid) == group
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
    return found


def is_healthy(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=2) as response:
            return bool(response.status == 200)
    except (OSError, http.client.HTTPException):
        return False


SETTLE = 5.0
"""Seconds in which an engine ends after a request has failed, if that is why it failed: its guard
takes ``guard.WATCH + guard.VITAL_GRACE`` to notice."""


class EngineTransport(HttpTransport):
    """Sends requests in the engine's own dialect, as many at one time as it takes."""

    def __init__(self, process: EngineProcess, limits: Limits) -> None:
        pace = RequestPace(at_once=process.engine.at_once)
        most = limits.max_reply_mib * 2**20
        access = Access(process.api_key, limits.request_timeout, pace, most)
        super().__init__(process.url, access)
        self._process = process
        self._limits = limits
        self._clients: list[Client] = []
        self._model: Served | None = None
        self._is_probed = False

    def connect(self, model: Served) -> Client:
        self._model = self._model or model
        capabilities = self._process.engine.capabilities
        # vLLM may be told to give other log-probabilities, but it gives these only while it writes.
        if any(argument.startswith("--logprobs-mode") for argument in model.args):
            capabilities = replace(capabilities, scoring=Support.IGNORED)
        client = Client(
            self.url,
            model.served_name,
            extras=model,
            capabilities=capabilities,
            transport=self,
        )
        client.context = declared(model)
        self._clients.append(client)
        return client

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Ask; what a dying engine says does not count as an answer.

        Nothing is sent to another process that listens on the port of an engine that has ended.
        """
        self._process.require_running()
        try:
            answer = await super().post(path, self._process.engine.translate(body))
            if path == CHAT:
                with suppress(*MALFORMED):  # which its reader refuses
                    require_finished(answer, FINISHED)
        except TransientError:
            deadline = time.monotonic() + SETTLE
            while time.monotonic() < deadline:
                self._process.require_running()
                await asyncio.sleep(0.1)
            raise
        return answer

    def learn(self, say: Say) -> None:
        """Probe an engine that lacks something, once, and do without what this version lacks."""
        engine = self._process.engine
        if engine.capabilities == ALL or self._is_probed or self._model is None:
            return
        model = self._model

        async def probe_it() -> Capabilities:
            # Another thread's event loop may have opened this transport already.
            async with EngineTransport(self._process, self._limits) as own:
                return await probe(own.connect(model), RequestParams())

        try:
            probed = asyncio.run(probe_it())
        except EndpointError as fault:
            problem = f"gives no chat completion: {fault}"
            raise EngineStartError(self._process.report(problem)) from fault
        self._is_probed = True
        declared = engine.capabilities.as_words()
        expected = [
            name for name, support in declared.items() if support == Support.YES
        ]
        both = replace(
            engine.capabilities, **{name: getattr(probed, name) for name in expected}
        )
        for client in self._clients:
            client.capabilities = both
        for words in both.missing(*expected).values():
            say(f"{engine.title} for {self._process.spec.model}: {words}")
