"""Supervise a command, so that it never outlives the process that started it.

``python -m refusal_checks.engines.supervisor CORES VITAL COMMAND...`` leads a process group of its
own, pinned to these cores (``0,2``, or ``all``). It ends the whole group when the command ends, and
when its standard input closes, which the kernel ensures however the starting process dies,
``kill -9`` included. vLLM needs this: its engine processes stay alive when the server that started
them is killed. Conversely, a server can take long to notice that an engine process is gone, so this
process watches the child processes whose names begin with VITAL (none if that is empty). The
command gets a folder of its own for temporary files and sockets, which is removed at the end.
"""

import hmac
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

import psutil

GRACE, WATCH = 5.0, 1.0
"""Seconds between the polite signal and the final one, and two looks at vital processes."""

VITAL_GRACE = 2.0
"""Seconds that a server has to end with its own message once a vital process is gone."""


def main(cores: str, vital: str, *command: str) -> int:
    """Run the command until it ends or standard input closes, then kill the whole group."""
    if cores != "all" and hasattr(os, "sched_setaffinity"):  # macOS has none
        os.sched_setaffinity(0, map(int, cores.split(",")))
    _set_handlers(
        signal.SIG_IGN
    )  # must survive the SIGTERM that it sends to its own group
    # A short name: the path of a socket has at most 107 characters.
    folder = tempfile.mkdtemp(prefix="vllm-")  # for this user alone
    server = subprocess.Popen(
        command,
        env={**os.environ, "TMPDIR": folder},
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        preexec_fn=lambda: _set_handlers(signal.SIG_DFL),
    )
    threading.Thread(target=_end_with_input, args=(server, folder), daemon=True).start()
    status = _wait(server, vital)
    with suppress(OSError):  # the asking process, which reads it, may be gone already
        os.write(1, str(status).encode())
    _end_group(folder)
    return status


def _end_group(folder: str) -> None:
    """Remove the temporary files, then kill all processes of the group, this one included."""
    shutil.rmtree(folder, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


def _set_handlers(how: signal.Handlers) -> None:
    signal.signal(signal.SIGTERM, how)
    signal.signal(signal.SIGINT, how)


def _wait(server: subprocess.Popen[bytes], vital: str) -> int:
    """Wait for the command's exit status; kill it if it outlives its vital processes."""
    vital_processes: set[psutil.Process] = set()
    while True:
        with suppress(subprocess.TimeoutExpired):
            return server.wait(WATCH)
        # Collected at each look: they come up after the server, and their names vanish with them.
        if vital:
            vital_processes |= _children(server.pid, vital)
        if not all(map(_is_alive, vital_processes)):
            with suppress(subprocess.TimeoutExpired):
                return server.wait(VITAL_GRACE)
            print(f"a process {vital} has ended: ending its server", file=sys.stderr)
            server.kill()


def _children(server: int, vital: str) -> set[psutil.Process]:
    """A server's vital processes whose names can be read."""
    children = set()
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(server).children(recursive=True):
            with suppress(psutil.Error, IndexError):
                if process.cmdline()[0].startswith(vital):
                    children.add(process)
    return children


def _is_alive(process: psutil.Process) -> bool:
    """True unless the process has ended, even if its name cannot be read right now."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _end_with_input(server: subprocess.Popen[bytes], folder: str) -> None:
    sys.stdin.buffer.read()
    # First politely, so that vLLM can remove its shared memory.
    os.killpg(0, signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    while server.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    _end_group(folder)


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class KeyCheck:
    """An ASGI application that refuses requests without the key in VLLM_API_KEY.

    Only /health needs no key; it says nothing but that the server is up.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._wanted = f"Bearer {os.environ['VLLM_API_KEY']}".encode()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        is_checked = (
            scope["type"] in ("http", "websocket") and scope["path"] != "/health"
        )
        # In constant time, so that the key cannot be guessed letter by letter.
        if not is_checked or hmac.compare_digest(given, self._wanted):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send(
                {"type": "http.response.body", "body": b'{"error": "Unauthorized"}'}
            )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
