"""Ctrl-C ends a run within seconds, whatever the process is doing; SIGTERM and SIGHUP as Ctrl-C.

Python learns of a signal between two steps of its main thread, so not while a library's code keeps
the interpreter, and a ``KeyboardInterrupt`` can be swallowed. The part of the handler that is
written in C always runs: it writes the signal's number into a pipe (``signal.set_wakeup_fd``). This
file, as a process of its own, reads the pipe, and ends the run's process if that does not end by
itself in time. Engines' guards and workers see that it has gone, and end too.
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
"""A terminal's, a scheduler's, and that of a terminal that closes."""

PATIENCE = 7.0
"""Seconds that a run may take to end after an interrupt: engines stop, reports are written.

GitHub's runner waits 7.5, Slurm 30.
"""

HURRY = 1.5
"""Seconds that it may take after a second interrupt."""

SAME = 0.05
"""Seconds within which two are one: a parent may repeat what the terminal sends."""

LOOK = 5.0
"""Seconds between two looks at whether the run's process lives."""


@contextmanager
def as_interrupts() -> Iterator[None]:
    """Have signals that end a process end what runs here as Ctrl-C does, in order.

    A signal that the process ignores (``nohup``) or handles in its own way stays as it is, and
    outside the main thread all of them do.
    """
    handled = _handle()
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def ctrl_c_raises() -> Iterator[None]:
    """Have Ctrl-C raise KeyboardInterrupt here, also where an event loop takes it for itself.

    A loop cannot act on it while what runs in it waits for a thread. A process that ignores Ctrl-C
    goes on to do so.
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
    """Do what Ctrl-C does now: an event loop has its own way to be interrupted."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):
        raise KeyboardInterrupt
    handler(number, frame)


class Watch:
    """Watches this process for interrupts until it is closed; only the main thread can start it.

    A signal that the process ignores (``nohup``) or handles in its own way stays as it is.
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
        """Stop watching; does nothing the second time, nor in another thread."""
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
    """Wait for interrupts of the parent process, and for its end."""
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
