"""Keep a run readable while it goes on, so that one that is killed can be read, too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from io import FileIO

from refusal_checks.core.records import Record
from refusal_checks.results.run_folder import RunFolder, record_lines
from refusal_checks.results.summary import RunSummary

SHARE = 0.02  # share of the time that may go into summaries of an unfinished run


class Journal:
    """Writes each prompt's records once they are judged, and the summary so far.

    The run does not depend on these files: if the disk is full, they end and the run goes on.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._files: dict[str, FileIO] = {}
        self._is_broken = False
        self._next_summary = 0.0

    def add(self, benchmark: str, records: Sequence[Record]) -> None:
        """Write a prompt's records; without any, the benchmark begins again."""
        if self._is_broken:
            return
        try:
            if benchmark not in self._files:
                path = self._folder.journal(benchmark)
                path.parent.mkdir(exist_ok=True)
                self._files[benchmark] = path.open("wb", buffering=0)
            file = self._files[benchmark]
            if (
                not records
            ):  # as after an engine's restart, when all is judged from the store
                file.seek(0)
                file.truncate()
            for line in record_lines(records):
                # One call, so that a killed run lacks at most the end of its last line.
                file.write(line.encode("utf-8", "replace"))
        except OSError:
            self._is_broken = True

    def publish(
        self, summary: Callable[[], RunSummary], complete: Iterable[str]
    ) -> None:
        """Drop complete benchmarks' records, which have their own file; write the summary so far.

        Skips the summary if the last one was written moments ago.
        """
        for benchmark in complete:
            file = self._files.pop(benchmark, None)
            if file:
                file.close()
                with suppress(OSError):
                    self._folder.journal(benchmark).unlink(missing_ok=True)
        # A summary of many gates takes long to write, and benchmarks may end all at once.
        begun = time.monotonic()
        if begun < self._next_summary:
            return
        with suppress(OSError):
            self._folder.write_unfinished(summary())
        now = time.monotonic()
        self._next_summary = now + (now - begun) / SHARE

    def close(self) -> None:
        for file in self._files.values():
            file.close()
