"""Runs of several candidates, one after the other."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import pairwise

from refusal_checks.core.errors import EngineStartError
from refusal_checks.results.progress import Progress
from refusal_checks.run.run import Run


class Series:
    """Runs in turn: one's engines stop before the next one's start.

    Args:
        runs: at least one.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = tuple(runs)
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._turn = 0

    @property
    def current(self) -> tuple[str, Progress]:
        """The run whose turn it is: its candidate, where there are several, and its progress."""
        run, count = self.runs[self._turn], len(self.runs)
        title = f"{run.options.candidate.name} ({self._turn + 1} of {count})" if count > 1 else ""
        return title, run.progress

    def start(self) -> None:
        """Start the first run; the others follow in a thread.

        Of several runs one whose engine does not come up says so on its board, and the next one's
        turn comes.

        Raises:
            EngineStartError: an engine of the only run did not come up.
            StoreError: the store cannot be read.
        """
        try:
            self.runs[0].start()
        except EngineStartError as fault:
            if len(self.runs) == 1:
                raise
            self.runs[0].fail(fault)
        if len(self.runs) > 1:
            self._thread = threading.Thread(target=self._follow, name="series", daemon=True)
            self._thread.start()

    def _follow(self) -> None:
        for before, run in pairwise(self.runs):
            before.join()
            before.stop_engines()
            if self._ended.is_set():
                return
            self._turn += 1
            try:
                run.start()
            except Exception as fault:  # whatever it is, the next one's turn comes
                if not self._ended.is_set():  # else it is closing that kept it from starting
                    run.fail(fault)

    def is_alive(self) -> bool:
        """Whether outcomes of any run may still come."""
        follows = self._thread is not None and self._thread.is_alive()
        return follows or any(run.is_alive() for run in self.runs)

    def close(self) -> None:
        """End all runs, the first one first."""
        self._ended.set()
        for run in self.runs:
            run.close()
        if self._thread is not None:
            self._thread.join(timeout=10)
