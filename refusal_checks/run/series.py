"""The runs of all candidates, one after the other, in a thread of their own."""

from __future__ import annotations

import gc
import threading
from collections.abc import Sequence
from concurrent.futures import Future

from refusal_checks.core.errors import EngineStartError
from refusal_checks.results.progress import Progress
from refusal_checks.run.run import Run

_RARELY = (20_000, 20, 100)
"""Thresholds of Python's garbage collector during runs. They keep hundreds of thousands of values
without cycles; looking for cycles as often as usual takes a third of an evaluation's time."""

PATIENT = 10.0
"""Seconds that an evaluation may take to end once it is told to."""


class Series:
    """Runs in turn: one's engines stop before the next one's work, or go on for it.

    Args:
        runs: at least one.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = tuple(runs)
        self._thread = threading.Thread(target=self._work, name="evaluation", daemon=True)
        self._first_started: Future[None] = Future()
        self._closed = False
        self._turn = 0

    @property
    def current(self) -> tuple[str, Progress]:
        """The candidate whose turn it is (empty if there is only one), and its progress."""
        run, count = self.runs[self._turn], len(self.runs)
        title = f"{run.options.candidate.name} ({self._turn + 1} of {count})" if count > 1 else ""
        return title, run.progress

    def start(self) -> None:
        """Start the runs; return once the first one's engines are ready.

        If the engine of one of several candidates does not start, its board says so, and the next
        candidate follows.

        Raises:
            EngineStartError: an engine of the only run did not start.
            UserError: something keeps the first run from starting.
            StoreError: the store cannot be read.
        """
        self._thread.start()
        self._first_started.result()

    def _work(self) -> None:
        usual = gc.get_threshold()
        gc.set_threshold(*_RARELY)
        try:
            before: Run | None = None
            for turn, run in enumerate(self.runs):
                if self._closed:
                    break
                self._turn = turn
                self._do(run, before)
                run.finish(keep_engines=run is not self.runs[-1] and not self._closed)
                before = run
        finally:
            gc.set_threshold(*usual)

    def _do(self, run: Run, before: Run | None) -> None:
        """Do a run; if its engines do not start, end the session or publish why."""
        try:
            run.open(before)
            run.evaluate(self._go_on)
        except BaseException as fault:
            if before:
                before.stop_engines()  # this run may not have taken them over
            run.stop_engines()  # they may load already
            is_first = not self._first_started.done()
            if is_first and (len(self.runs) == 1 or not isinstance(fault, EngineStartError)):
                self._closed = True
                self._first_started.set_exception(fault)
            elif not self._closed:  # else it is closing that kept it from starting
                run.fail(fault)
        self._say_started()

    def _go_on(self) -> None:
        """Do what waited for a run's engines: tests go on, and the next engines may load."""
        self._say_started()
        run, *others = self.runs[self._turn :]
        if others:
            others[0].load_early(run)

    def _say_started(self) -> None:
        if not self._first_started.done():
            self._first_started.set_result(None)

    def is_alive(self) -> bool:
        """True if outcomes of any run may still come."""
        return self._thread.is_alive()

    def close(self, patience: float = PATIENT) -> None:
        """End all runs and write their summaries.

        Args:
            patience: seconds that the evaluation may take to end.
        """
        self._closed = True
        for run in reversed(self.runs):  # so that no engine loads early while others stop
            run.cancel()
        if self._thread.ident is not None:
            self._thread.join(timeout=patience)
        for run in self.runs:
            run.finish()
