"""Waiting for other processes."""

import time
from collections.abc import Callable

import psutil


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether a condition came true in time."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def lives(process: psutil.Process) -> bool:
    """Whether a process is more than an entry in the process table."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def words(process: psutil.Process) -> list[str]:
    """A process's command line; empty where it has ended."""
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []
