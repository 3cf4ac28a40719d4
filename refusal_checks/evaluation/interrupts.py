"""End a run within seconds of Ctrl-C, SIGTERM or SIGHUP, whatever the process is doing.

Python handles a signal between two bytecodes of its main thread, so not while a C extension runs,
and code may swallow a ``KeyboardInterrupt``. The C part of the handler always runs: it writes the
signal's number into a pipe (``signal.set_wakeup_fd``). This file, run as a separate process, reads
the pipe and kills the run's process if that does not end in time. The guards and workers of
engines notice and end too.
"""

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from subprocess import DEVNULL, PIPE, Popen
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Sent by a terminal (Ctrl-C), by a scheduler, and by a terminal that closes."""

PATIENCE = 7.0
"""Seconds that a run may take to end after an interrupt: engines stop, reports are written.

GitHub's runner waits 7.5, Slurm 30.
"""

HURRY = 1.5
"""Seconds that a run may take to end after a second interrupt."""

SAME = 0.05
"""Two signals within so many seconds count as one: a parent may repeat what the terminal sends."""

LOOK = 5.0
"""Seconds between two checks whether the run's process is alive."""


@contextmanager
def as_interrupts() -> Iterator[None]:
    """Within the block, treat signals that end a process like Ctrl-C, so that cleanup runs.

    A signal that the process ignores (``nohup``) or handles itself is left alone. Outside the main
    thread nothing changes.
    """
    handled = _handle()
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def ctrl_c_raises() -> Iterator[None]:
    """Within the block, Ctrl-C raises KeyboardInterrupt even if an event loop handles SIGINT.

    A loop cannot react while its code waits for a thread. A process that ignores Ctrl-C still
    ignores it.
    """
    before = signal.getsignal(signal.SIGINT)
    if (
        not callable(before)
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _handle() -> list[signal.Signals]:
    """Treat signals that have no handler yet as Ctrl-C, and return them."""
    handled = []
    with suppress(ValueError):  # not in the main thread
        for number in ENDING:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _interrupt)
                handled.append(number)
    return handled


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Call the present handler of Ctrl-C: an event loop installs its own."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):
        raise KeyboardInterrupt
    handler(number, frame)


class Watch:
    """Watches this process for interrupts until it is closed; only the main thread can start it.

    A signal that the process ignores (``nohup``) or handles itself is left alone.
    """

    def __init__(self) -> None:
        self._watcher: Popen[bytes] | None = None
        self._before = -1
        self._handled: list[signal.Signals] = []
        # No process can be started, or this is not the main thread.
        with suppress(OSError, ValueError):
            self._start()

    def _start(self) -> None:
        # By its path and without the package, which takes longer to import than an interrupt may.
        times = [str(os.getpid()), str(PATIENCE), str(HURRY)]
        command = [sys.executable, "-I", "-S", __file__, *times]
        self._watcher = watcher = Popen(
            command, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True
        )
        assert watcher.stdin is not None, "it is a pipe"
        os.set_blocking(watcher.stdin.fileno(), False)
        try:
            self._before = signal.set_wakeup_fd(
                watcher.stdin.fileno(), warn_on_full_buffer=False
            )
        except ValueError:
            self._end()
            raise
        self._handled = _handle()

    def close(self) -> None:
        """Stop watching. Does nothing if called again or from another thread."""
        if self._watcher is None:
            return
        with suppress(ValueError):
            signal.set_wakeup_fd(self._before)
            for number in self._handled:
                signal.signal(number, signal.SIG_DFL)
            self._end()

    def _end(self) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.kill()  # forked processes may hold its pipe open
            with watcher:
                pass


def main(parent: int, patience: float, hurry: float) -> None:
    """Wait until the parent process is interrupted or ends."""
    deadline = float("inf")
    last = float("-inf")
    while time.monotonic() < deadline:
        left = min(LOOK, max(0.0, deadline - time.monotonic()))
        has_signal = bool(select.select([0], [], [], left)[0])
        if not has_signal:
            if os.getppid() != parent:
                return
            continue
        numbers = os.read(0, 4096)
        now = time.monotonic()
        if not numbers:
            return  # the pipe is closed
        is_ending = not set(ENDING).isdisjoint(numbers)
        if is_ending and now - last > SAME:
            is_first = deadline == float("inf")
            deadline = min(deadline, now + (patience if is_first else hurry))
            last = now
    if os.getppid() == parent:
        os.kill(parent, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), *map(float, sys.argv[2:]))
