"""Who owns the engines: the controller of an xdist run, or the only process of a plain one.

The only file that knows xdist. The owner evaluates and publishes; everybody reads the board.

=============  =======================================  ==========================
process        engines and evaluation                   verdicts
=============  =======================================  ==========================
plain run      starts them once tests are collected     from the board
controller     starts them once a worker has collected  (runs no test)
worker         never                                    from the controller's board
=============  =======================================  ==========================
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from refusal_checks.benchmarks import Benchmark, catalogue
from refusal_checks.core.errors import EngineStartError, StoreError, UserError
from refusal_checks.core.text import clean_lines
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.threshold_files import Thresholds
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges.trust.floors import Figure
from refusal_checks.results.board import Board, JudgeOutcome
from refusal_checks.run.options import batch as batch_options
from refusal_checks.run.options import command_line, models

if TYPE_CHECKING:
    from refusal_checks.engines.batch.report import Report
    from refusal_checks.results.progress import Progress
    from refusal_checks.run.run import Run
    from refusal_checks.run.series import Series

EXIT_ENGINE = 16
"""Exit code of a session that ended because an engine did not start."""

JUDGE_TEST = "test_judge"
"""Name of the test that checks the judge."""

_KEY = "refusal_checks"


class GateSession:
    """What one pytest process knows of the gates."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._series: Series | None = None
        self.batch: Report | None = None
        self._waited_again: set[str] = set()
        self._worker: dict[str, Any] | None = getattr(config, "workerinput", None)

    @cached_property
    def thresholds(self) -> Thresholds:
        """The run's gates.

        Raises:
            pytest.UsageError: a threshold file is wrong.
        """
        with _usage_errors():
            return command_line.load_thresholds(self._config)

    @property
    def judge_figures(self) -> tuple[Figure, ...]:
        """What is checked of the judge."""
        floors = self.thresholds.judge
        return floors.figures if floors else ()

    @cached_property
    def benchmarks(self) -> Mapping[str, Benchmark]:
        """All benchmarks that the threshold files may mean.

        Raises:
            pytest.UsageError: a table does not describe one.
        """
        with _usage_errors():
            return catalogue(self.thresholds.tables)

    def check_thresholds(self) -> None:
        """Read the threshold files now where there are any: a test's collection is too late.

        Raises:
            pytest.UsageError: one is wrong, or was named and is missing.
        """
        if command_line.names_thresholds(self._config):
            _ = self.benchmarks

    @cached_property
    def candidates(self) -> tuple[str, ...]:
        """Names of the candidates, each different; one without a name where none is given."""
        return models.candidate_names(self._config) or ("",)

    @cached_property
    def boards(self) -> tuple[Board, ...]:
        """Where the owner publishes and everybody reads, one a candidate; nothing is written
        before a run starts."""
        shared = self._worker and self._worker[_KEY]
        return tuple(Board(Path(folder)) for folder in shared or self._new_folders())

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs, in the process that owns them and once they have been started."""
        return self._series.runs if self._series else ()

    @property
    def current(self) -> tuple[str, Progress] | None:
        """The run that is going on, see ``Series.current``; None where there is none."""
        return self._series.current if self._series else None

    def test_id(self, candidate: str, gate: str) -> str:
        """What a gate's test is called: by its candidate too, where there are several."""
        return f"{gate}-{candidate}" if len(self.candidates) > 1 else gate

    def share(self, workerinput: dict[str, Any]) -> None:
        """Tell a worker where the boards are."""
        workerinput[_KEY] = [str(board.folder) for board in self.boards]

    def verdict(self, gate: Gate, candidate: str) -> tuple[Verdict, dict[str, str]]:
        """A gate's verdict on a candidate and the run's provenance; waits for both.

        Raises:
            EvaluationError: the evaluation could not be done.
        """
        board = self.boards[self.candidates.index(candidate)]
        verdict = board.wait(gate.benchmark, gate.id, self._owner_lives())
        return verdict, board.provenance()

    def judge(self) -> JudgeOutcome:
        """How the run's judge did on its own check; waits for that.

        Raises:
            EvaluationError: the check could not be done.
        """
        return self.boards[0].wait_judge(self._owner_lives())

    def _owner_lives(self) -> Callable[[], bool]:
        parent = os.getppid()
        return lambda: self._series.is_alive() if self._series else os.getppid() == parent

    def wait_again(self, nodeid: str, report: pytest.TestReport, scheduler: Any) -> None:
        """Wait for a verdict again, once, where the worker that waited for it has died.

        That says nothing of a gate, so the test is skipped in the report. Where its worker dies
        once more, or nobody takes its tests (``--dist each``), it is an error and has not failed.
        """
        if not self._selected({gate_id(nodeid)}) and not self._checks_judge(nodeid):
            return
        report.when = "setup"  # what fails there is an error
        if nodeid in self._waited_again or self._config.getoption("dist") == "each":
            return
        self._waited_again.add(nodeid)
        with suppress(NotImplementedError):  # by xdist's other schedulers, which do it unasked
            scheduler.mark_test_pending(nodeid)
        report.outcome = "skipped"
        report.longrepr = (report.location[0], 0, f"{report.longrepr}; it runs once more")

    def start(self, nodeids: Iterable[str], say: Callable[[str], None]) -> None:
        """Start the run that the selected tests need, once; does nothing where they need none.

        Raises:
            pytest.UsageError: something that the user gave is wrong; nothing has been started.
            pytest.exit.Exception: an engine did not start; the session ends with EXIT_ENGINE.
        """
        if self._series or self.batch or self._worker is not None:
            return
        nodeids = list(nodeids)
        wanted = self._selected({gate_id(nodeid) for nodeid in nodeids})
        if any(map(self._checks_judge, nodeids)):
            wanted.setdefault(0, [])
        if not wanted:
            return
        from refusal_checks.engines.batch.stand_in import BatchModels
        from refusal_checks.run.batch_round import Round
        from refusal_checks.run.run import (
            Run,  # HTTP and templates, which collection need not import
        )
        from refusal_checks.run.series import Series

        with _usage_errors():
            settings = command_line.read(self._config, self.thresholds)
            runs = [(settings[number], gates) for number, gates in sorted(wanted.items())]
            batch = batch_options.read(self._config)
            if batch:
                self.batch = Round(runs, batch, say).run()
                return
            stored = batch_options.stored_only(self._config)
            self._series = Series(
                [
                    Run(
                        settings[number],
                        gates,
                        self.boards[number],
                        say,
                        BatchModels(settings[number].store) if stored else None,
                    )
                    for number, gates in sorted(wanted.items())
                ]
            )
            for run in self._series.runs:
                gates = {"selected": run.gates, "known": len(self.thresholds.gates)}
                run.summary.manifest = run.summary.manifest.extended(gates=gates)
        try:
            with _usage_errors():
                self._series.start()
        except EngineStartError as fault:
            pytest.exit(clean_lines(str(fault)), returncode=EXIT_ENGINE)

    def _selected(self, ids: Collection[str]) -> dict[int, list[Gate]]:
        """The gates whose tests are selected, by the number of their candidate."""
        found: dict[int, list[Gate]] = {}
        for number, candidate in enumerate(self.candidates):
            for gate in self.thresholds.gates:
                if self.test_id(candidate, gate.id) in ids:
                    found.setdefault(number, []).append(gate)
        return found

    def close(self) -> None:
        """End the runs that this process owns, if any; what they found is in their folders then."""
        if self._series is not None:
            self._series.close()

    def _checks_judge(self, nodeid: str) -> bool:
        own = nodeid.rpartition("::")[2].startswith(f"{JUDGE_TEST}[")
        return own and gate_id(nodeid) in self.judge_figures

    def _new_folders(self) -> list[Path]:
        """One a candidate; they sort in the order of the candidates."""
        name = f"{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}"
        count = len(self.candidates)
        names = [name] if count == 1 else [f"{name}-{number + 1}" for number in range(count)]
        return [command_line.own_folder(self._config) / "runs" / name for name in names]


def gate_id(nodeid: str) -> str:
    """The gate that a test's node id names: what its brackets hold, undone of pytest's escapes."""
    found = re.search(r"::\w+\[(.*)\]", nodeid, re.DOTALL)  # an IPv6 address has :: and [ too
    inner = found[1] if found else ""
    return inner.encode("ascii", "backslashreplace").decode("unicode_escape")


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Errors of the user end the session with pytest's exit code for them, 4."""
    try:
        yield
    except (UserError, StoreError) as fault:
        raise pytest.UsageError(clean_lines(str(fault))) from None
