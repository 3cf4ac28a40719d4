"""End a run cleanly after Ctrl-C, SIGTERM or SIGHUP: engines stop, reports are written."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Sent by Ctrl-C in a terminal, by a scheduler, and by a terminal that closes."""


@contextmanager
def signals_as_interrupts() -> Iterator[None]:
    """Within the block, treat signals that end a process like Ctrl-C, so that cleanup runs.

    Leaves alone signals that the process ignores (``nohup``) or handles itself. Does nothing
    outside the main thread.
    """
    handled = []
    with suppress(ValueError):  # not in the main thread
        for number in ENDING:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _interrupt)
                handled.append(number)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def ctrl_c_as_interrupt() -> Iterator[None]:
    """Within the block, make Ctrl-C raise KeyboardInterrupt even if an event loop handles SIGINT.

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


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Call the current handler of Ctrl-C, which may be an event loop's."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):
        raise KeyboardInterrupt
    handler(number, frame)
