"""Let one run at a time use a store: a lock beside its file, and a file with the holder's name."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from refusal_checks.core.errors import StoreError
from refusal_checks.core.text import sanitize
from refusal_checks.io.files import make_private_folder

LONGEST = 3600.0
"""How many seconds a run waits for another one."""

LOOK = 0.5
"""Seconds between two attempts to take the lock."""


class StoreLock:
    """The lock of a store; the system releases it when its process ends, even by a crash."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._lock = FileLock(f"{store}.lock", mode=0o600)
        self._holder = Path(f"{store}.holder")

    def take(
        self, run: Path, say: Callable[[str], None], is_cancelled: Callable[[], bool]
    ) -> None:
        """Wait until no other run uses the store, and say who does.

        Args:
            run: the folder of this run.

        Raises:
            StoreError: another run uses the store too long, or the lock cannot be created.
            KeyboardInterrupt: ``is_cancelled`` became true during the wait.
        """
        begun = time.monotonic()
        said = ""
        while not self._try_to_lock():
            who = self._read_holder()
            if who != said:
                said = who
                say(
                    f"the store {self._store} is in use by {who}: this run waits for it, up to "
                    f"{LONGEST / 60:g} minutes"
                )
            if is_cancelled():
                raise KeyboardInterrupt
            if time.monotonic() - begun > LONGEST:
                raise StoreError(
                    f"the store {self._store}: end the run that uses it, or name another store "
                    f"with --store FILE: {who} still uses it after {LONGEST / 60:g} minutes"
                )
            time.sleep(LOOK)
        # A file of its own: Windows lets nobody read a locked one.
        with suppress(OSError):  # it only informs
            self._holder.write_text(
                f"process {os.getpid()} on {platform.node()}, since "
                f"{time.strftime('%Y-%m-%d %H:%M:%S')}, run folder {run}\n",
                encoding="utf-8",
            )

    def release(self) -> None:
        """Release the lock for the next run; does nothing if it is not held."""
        if self._lock.is_locked:
            with suppress(OSError):
                self._holder.unlink()
            self._lock.release()

    def _try_to_lock(self) -> bool:
        try:
            make_private_folder(self._store.parent)
            self._lock.acquire(blocking=False)
        except Timeout:
            return False
        except OSError as fault:
            raise StoreError(
                f"the store {self._store}: {fault.strerror or fault}; if it is a folder, name a "
                "file; else create its folder, or change the folder's permissions; or name another "
                "one with --store FILE"
            ) from fault
        return True

    def _read_holder(self) -> str:
        with suppress(OSError):
            return sanitize(
                self._holder.read_text(encoding="utf-8", errors="replace"), 300
            )
        return "another run"
