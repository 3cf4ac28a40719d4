"""A run as reports read it: its folder, its summary, and the answer that follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Self

from refusal_checks.reports.wording.release import (
    ReleaseDecision,
    in_words,
    release_decision,
)
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary


@dataclass(frozen=True)
class RunView:
    """A run for reports."""

    folder: RunFolder
    summary: RunSummary

    @classmethod
    def read(cls, path: Path) -> Self:
        folder = RunFolder.of(path)
        return cls(folder, folder.summary())

    @property
    def decision(self) -> ReleaseDecision:
        return release_decision(self.summary)

    def leave_open(self, unexplained: Sequence[str]) -> None:
        """Mark an ended run as undecided, because of failures that no verdict explains."""
        self.summary.unexplained += unexplained
        with suppress(OSError):  # it was said when the run ended
            self.folder.write_summary(self.summary, in_words(self.summary))

    @property
    def candidate(self) -> str:
        return self.summary.manifest.shown or self.folder.path.name

    @cached_property
    def when(self) -> datetime | None:
        """Start time in UTC; None if the manifest has none."""
        try:
            started = datetime.fromisoformat(self.summary.manifest.started)
        except ValueError:
            return None
        if started.tzinfo is None:
            return started.replace(tzinfo=UTC)
        return started.astimezone(UTC)

    @property
    def day(self) -> str:
        return f"{self.when:%Y-%m-%d %H:%M}" if self.when else "unknown"
