"""A run as reports read it: its folder, its summary, and the answer that follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary
from refusal_checks.wording.release import (
    ReleaseDecision,
    release_decision,
    summary_texts,
)


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
            self.folder.write_summary(self.summary, summary_texts(self.summary))

    @property
    def candidate(self) -> str:
        return self.summary.manifest.shown or self.folder.path.name
