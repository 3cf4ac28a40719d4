"""The result of an evaluation, right after it or loaded later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from refusal_checks.config.tables import ReportsTable
from refusal_checks.core.errors import DataError, require_known
from refusal_checks.core.records import Record
from refusal_checks.core.text import sanitize
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.reports import formats
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary
from refusal_checks.trust.minimums import JudgeCheck
from refusal_checks.wording.release import (
    ReleaseDecision,
    release_decision,
    summary_texts,
)

if TYPE_CHECKING:
    from pandas import DataFrame


class RunResult:
    """The result of a run.

    Everything comes from memory or the run's folder; nothing is evaluated here.
    """

    def __init__(self, folder: RunFolder, summary: RunSummary) -> None:
        self._folder = folder
        self.summary = summary

    @classmethod
    def load(cls, path: Path) -> RunResult:
        """Load a run from its folder; see ``is_unfinished``.

        Raises:
            DataError: the folder holds no run, or one that has changed since it was written.
        """
        folder = RunFolder.of(path.absolute())
        summary = folder.summary()
        folder.require_whole()
        return cls(folder, summary)

    @property
    def is_unfinished(self) -> bool:
        """True if the run is not complete: figures cover what was done so far."""
        return self.summary.unfinished

    @property
    def candidate(self) -> str:
        """Short name of the candidate."""
        return self.summary.manifest.shown or self._folder.path.name

    @property
    def folder(self) -> Path:
        return self._folder.path

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """Verdicts by gate id, such as ``xstest_safe-rejection_rate``."""
        return self.summary.verdicts

    @property
    def errors(self) -> dict[str, str]:
        """Why gates have no verdict, by gate id."""
        return self.summary.errors

    @property
    def figures(self) -> dict[str, Mapping[str, Estimate]]:
        """Figures with intervals, by benchmark and metric."""
        return {
            name: benchmark.figures
            for name, benchmark in self.summary.benchmarks.items()
        }

    @property
    def judge(self) -> JudgeCheck | None:
        """Result of the judge's check; None if the judge was not checked."""
        return self.summary.judge

    @property
    def decision(self) -> ReleaseDecision:
        """Whether the candidate may ship, and why."""
        return release_decision(self.summary)

    def records(self, benchmark: str) -> Iterator[Record]:
        """Yield all answers to a benchmark, with their judgements.

        Raises:
            DataError: there are no answers, or their file is damaged.
        """
        names = self._folder.benchmarks
        require_known(benchmark, names, "records", "benchmark", DataError)
        return self._folder.records(benchmark)

    def frame(self) -> DataFrame:
        """Return all answers as a table, one row per answer."""
        return self._folder.frame()

    def write_html(self, path: str | PathLike[str]) -> None:
        """Write the report with all answers as one HTML file."""
        formats.OWN["html"].write(self._folder, Path(fspath(path)))

    def write_junit(self, path: str | PathLike[str]) -> None:
        """Write JUnit XML with a test case for each gate and each check of the judge."""
        formats.OWN["junit"].write(self._folder, Path(fspath(path)))

    def write_reports(self, reports: ReportsTable) -> Iterator[str]:
        """Write the files that a spec names; yield one line about each."""
        folder = RunFolder(self.folder)
        for name, report, path in (
            *formats.targets(reports),
            *formats.github_summary(),
        ):
            try:
                report.write(folder, path)
            except (OSError, DataError) as fault:
                yield f"{name} report could not be written: {sanitize(str(fault))}"
                continue
            yield formats.report_line(name, report, path)

    def leave_open(self, unexplained: Sequence[str]) -> None:
        """Set the answer to ``open``, also in the run's folder.

        Args:
            unexplained: failures that no verdict explains, such as of other tests.
        """
        self.summary.unexplained += unexplained
        with suppress(OSError):  # it was said when the run ended
            self._folder.write_summary(self.summary, summary_texts(self.summary))

    def __repr__(self) -> str:
        return f"<RunResult of {self.candidate}: {self.decision.line}>"
