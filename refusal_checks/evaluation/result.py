"""The result of an evaluation, right after it or loaded later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from refusal_checks.core.errors import DataError, UserError, require_known
from refusal_checks.core.records import Record
from refusal_checks.core.text import clean
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges.trust.floors import JudgeCheck
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.reports import formats
from refusal_checks.results.release import ReleaseDecision, weightiest
from refusal_checks.results.run_folder import RunFolder, RunView
from refusal_checks.results.summary import RunSummary
from refusal_checks.spec import ReportsTable

if TYPE_CHECKING:
    from pandas import DataFrame


class RunResult:
    """The result of a run, for one candidate or several.

    Everything comes from memory or from the run's folder; nothing is evaluated here.
    """

    def __init__(self, runs: Sequence[RunView]) -> None:
        self.runs = tuple(runs)

    @classmethod
    def load(cls, *paths: Path) -> RunResult:
        """Load runs from their folders; see ``is_unfinished``.

        Raises:
            DataError: a folder holds no run, or one that has changed since it was written.
        """
        views = []
        for number, path in enumerate(paths):
            view = RunView.read(path.absolute())
            view.folder.require_whole()
            views.append(replace(view, number=number))
        return cls(views)

    @property
    def is_unfinished(self) -> bool:
        """True if a run goes on, or was stopped or killed: figures are of what it did so far."""
        return any(run.summary.unfinished for run in self.runs)

    @property
    def candidates(self) -> tuple[str, ...]:
        """Short names of the candidates, in order of evaluation."""
        return tuple(run.summary.manifest.title for run in self.runs)

    def of(self, candidate: str) -> RunResult:
        """Return the result of one candidate.

        Raises:
            UserError: no candidate has this name.
        """
        require_known(candidate, self.candidates, "result", "candidate", UserError)
        return RunResult([self.runs[self.candidates.index(candidate)]])

    @property
    def run(self) -> RunView:
        """The run of the only candidate: its folder and summary.

        Raises:
            UserError: there are several candidates; use ``of``.
        """
        if len(self.runs) != 1:
            names = ", ".join(self.candidates) or "none"
            raise UserError(
                f"name the candidate, result.of(NAME): there are several: {names}"
            )
        return self.runs[0]

    @property
    def folder(self) -> Path:
        return self.run.folder.path

    @property
    def summary(self) -> RunSummary:
        return self.run.summary

    def test_id(self, run: RunView, gate: str) -> str:
        """Return the id of a gate's test, which names the candidate if there are several."""
        return f"{gate}-{run.summary.manifest.title}" if len(self.runs) > 1 else gate

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """Verdicts by gate id, such as ``xstest_safe-rejection_rate``."""
        verdicts: dict[str, Verdict] = {}
        for run in self.runs:
            for gate, verdict in run.summary.verdicts.items():
                verdicts[self.test_id(run, gate)] = verdict
        return verdicts

    @property
    def errors(self) -> dict[str, str]:
        """Why gates have no verdict, by gate id."""
        errors: dict[str, str] = {}
        for run in self.runs:
            for gate, error in run.summary.errors.items():
                errors[self.test_id(run, gate)] = error
        return errors

    @property
    def figures(self) -> dict[str, Mapping[str, Estimate]]:
        """Figures with intervals of the only candidate, by benchmark and metric."""
        return {
            name: benchmark.figures
            for name, benchmark in self.summary.benchmarks.items()
        }

    @property
    def judge(self) -> JudgeCheck | None:
        """Result of the judge's check; None if the judge was not checked."""
        return next((run.summary.judge for run in self.runs if run.summary.judge), None)

    @property
    def decision(self) -> ReleaseDecision:
        """Whether the candidate may ship, and why; for several candidates, the worst answer."""
        if not self.runs:
            reasons = ("no run has begun",)
            return ReleaseDecision("open", reasons, decisive=reasons)
        return weightiest(run.decision for run in self.runs)

    def records(self, benchmark: str) -> Iterator[Record]:
        """Yield all answers of the only candidate to a benchmark, with their judgements.

        Raises:
            DataError: there are no answers, or their file is damaged.
        """
        folder = self.run.folder
        require_known(benchmark, folder.benchmarks, "records", "benchmark", DataError)
        return folder.records(benchmark)

    def frame(self) -> DataFrame:
        """Return all answers of the only candidate as a table, one row per answer."""
        return self.run.folder.frame()

    def write_html(self, path: str | PathLike[str]) -> None:
        """Write the report with all answers as one HTML file."""
        from refusal_checks.reports.formats import html

        html.write([run.folder for run in self.runs], Path(fspath(path)))

    def write_junit(self, path: str | PathLike[str]) -> None:
        """Write JUnit XML with a case for each gate and each check of the judge."""
        from refusal_checks.reports import junit

        junit.write(self.runs, Path(fspath(path)))

    def write_reports(self, reports: ReportsTable) -> Iterator[str]:
        """Write the files that a spec names; yield one line about each."""
        folders = [RunFolder(run.folder.path) for run in self.runs]
        for name, report, path in formats.targets(reports) if folders else ():
            try:
                report.write(folders, path)
            except (OSError, DataError) as fault:
                yield f"{name} report could not be written: {clean(str(fault))}"
                continue
            yield formats.written(name, report, path)

    def __repr__(self) -> str:
        return f"<RunResult of {', '.join(self.candidates) or 'nothing'}: {self.decision.line}>"
