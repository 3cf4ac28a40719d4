"""Which process owns the engines: the controller of workers, or the only process.

The owner evaluates and publishes; every process reads the board.

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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING

import pytest

from refusal_checks.benchmarks import Benchmark, catalogue
from refusal_checks.core.errors import EngineStartError, EvaluationError, StoreError, UserError
from refusal_checks.core.suggestions import near
from refusal_checks.core.text import clean, clean_lines
from refusal_checks.evaluation.interrupts import Watch
from refusal_checks.evaluation.options import command_line, models
from refusal_checks.evaluation.options import recorded as batch_options
from refusal_checks.evaluation.options.call import Call
from refusal_checks.gates.decide import Verdict
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.thresholds import Thresholds
from refusal_checks.judges.trust.canary import Figure
from refusal_checks.results.outbox import Board, JudgeOutcome

if TYPE_CHECKING:
    from refusal_checks.engines.pool import Shared
    from refusal_checks.engines.servers import Say
    from refusal_checks.evaluation.run import Run, Series
    from refusal_checks.results.progress import Progress, Underway


def require_clear(expression: str, gates: Sequence[str], candidates: Sequence[str]) -> None:
    """Refuse a word of ``-k`` that names some gates and is also part of a candidate's name.

    It would select all gates of that candidate, and its evaluation of every benchmark.
    """
    words = dict.fromkeys(re.findall(r"[\w:+\-.\[\]\\/]+", expression.lower()))  # as pytest does
    for word in words if len(candidates) > 1 else ():
        named = sum(word in gate.lower() for gate in gates)
        twin = next((name for name in candidates if word in name.lower()), None)
        if word not in ("or", "and", "not") and 0 < named < len(gates) and twin is not None:
            raise pytest.UsageError(
                f'-k {word}: write -k "[{word}" for the gates whose ids begin with it, or give the '
                f"candidates other names with --candidate-name: it is part of the candidate's name "
                f"{twin}, too, and would select all of its gates"
            )


EXIT_ENGINE = 16
"""Exit code of a session that ended because an engine did not start."""

# Named like a built-in exception: pytest would put the name of any other module before the message.
_Stopped: type[Exception] = type("Stopped", (pytest.exit.Exception,), {"__module__": "builtins"})


IMPATIENT = 2.0
"""Seconds that an evaluation may take to end after an interrupt."""

JUDGE_TEST = "test_judge"
"""Name of the test that checks the judge."""


NAMED_TESTS = pytest.StashKey[list[str]]()
"""The tests that a command names, such as ``test_gate[xstest_safe-rejection_rate]``."""


def is_named(test: str, named: str) -> bool:
    """True if a test is the named one, or one of its variants if it is named without brackets."""
    return named in (test, test.partition("[")[0])


class GateSession:
    """The gates, boards and runs of one pytest process; all processes of a run know its name."""

    def __init__(self, config: pytest.Config, call: Call, name: str) -> None:
        self._config = config
        self._call = call
        self._name = name
        self._series: Series | None = None
        self._watch: Watch | None = None
        self.batch: list[str] | None = None

    @cached_property
    def thresholds(self) -> Thresholds:
        with _usage_errors():
            return command_line.load_thresholds(self._call)

    @property
    def judge_figures(self) -> tuple[Figure, ...]:
        floors = self.thresholds.judge
        return floors.figures if floors else ()

    @cached_property
    def benchmarks(self) -> Mapping[str, Benchmark]:
        """All benchmarks that threshold files may name, those that they define included."""
        with _usage_errors():
            return catalogue(self.thresholds.tables, self.thresholds.attacked)

    def check_thresholds(self) -> None:
        """Read the threshold files, if any are named, before anything is collected."""
        if self._call.getoption("thresholds"):
            _ = self.benchmarks

    @cached_property
    def candidates(self) -> tuple[str, ...]:
        """The candidates' names, all different; one empty name if no candidate is given."""
        with _usage_errors():
            names = models.titles(self._call)
            gates = [gate.id for gate in self.thresholds.gates]
            require_clear(self._config.getoption("keyword", ""), gates, names)
        return names or ("",)

    @cached_property
    def boards(self) -> tuple[Board, ...]:
        """One board per candidate; nothing is written before a run starts."""
        count = len(self.candidates)  # folders sort in the order of the candidates
        ends = [""] if count == 1 else [f"-{number}" for number in range(1, count + 1)]
        folders = [self._call.runs / f"{self._name}{end}" for end in ends]
        # Tests begin once the first run has been opened; others open when their turn comes.
        return tuple(Board(path, is_open=path == folders[0]) for path in folders)

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs, in the process that owns them and once they have been started."""
        return self._series.runs if self._series else ()

    @property
    def current(self) -> tuple[str, Progress] | None:
        return self._series.current if self._series else None

    def test_id(self, candidate: str, gate: str) -> str:
        """The id of a gate's test; it names the candidate if there are several."""
        return f"{gate}-{candidate}" if len(self.candidates) > 1 else gate

    def verdict(self, gate: Gate, candidate: str) -> tuple[Verdict, dict[str, str]]:
        """A gate's verdict on a candidate, and the run's provenance; waits for both."""
        board = self.boards[self.candidates.index(candidate)]
        verdict = board.wait(gate.benchmark, gate.id, self._owner_lives())
        return verdict, {**board.provenance(), **board.facts(gate.benchmark)}

    def judge(self) -> JudgeOutcome:
        """How the run's judge did on its own check; waits for the check."""
        outcome = self.boards[0].wait_judge(self._owner_lives())
        if outcome.error:
            raise EvaluationError(outcome.error)
        return outcome

    def _owner_lives(self) -> Callable[[], bool]:
        parent = os.getppid()
        return lambda: self._series.is_alive() if self._series else os.getppid() == parent

    def is_gate(self, nodeid: str) -> bool:
        return bool(self._wanted([nodeid]))

    def start(
        self, nodeids: Collection[str], say: Say, prepared: Callable[[Sequence[Underway]], None]
    ) -> None:
        """Start the runs that the selected tests need, once; does nothing if they need none.

        Calls ``prepared`` with the runs before an engine starts. If one does not start, the session
        ends with EXIT_ENGINE.
        """
        if self._series or self.batch:
            return
        _ = self.benchmarks  # a worker that finds a table wrong collects no gates, and says nothing
        if not (wanted := self._wanted(nodeids)):
            return
        if not self._config.getoption("usepdb", False):  # a debugger has its own use for Ctrl-C
            self._watch = Watch()
        with _usage_errors():
            options = command_line.read(self._call, self.thresholds)
            runs = [(options[number], number, gates) for number, gates in sorted(wanted.items())]
            if batch := batch_options.read_batch(self._call):
                from refusal_checks.evaluation.batch_round import evaluate_batch

                asked = [(each, gates) for each, _, gates in runs]
                self.batch = evaluate_batch(asked, batch, say)
                return
            # HTTP and templates, which collection need not import
            from refusal_checks.engines.batch.models import BatchModels
            from refusal_checks.evaluation.prepare import prepare
            from refusal_checks.evaluation.run import Run, Series

            self._call.keep_private()
            stored_only = self._call.getoption("stored_only")
            if stored_only and self._call.getoption("fresh"):
                raise UserError("--stored-only and --fresh: give one of them")
            shared: Shared = {}
            verified: dict[str, str] = {}
            ready = []
            for each, number, gates in runs:
                board = self.boards[number]
                servers = BatchModels(each.store) if stored_only else None
                run = prepare(each, gates, board, say, verified, servers, shared)
                selection = {"selected": len(gates), "known": len(self.thresholds.gates)}
                run.summary.manifest = run.summary.manifest.extended(gates=selection)
                self._call.keep_private(board.folder)
                ready.append(Run(run))
            self._series = Series(ready)
        prepared([run.underway for run in self.runs])
        try:
            with _usage_errors():
                self._series.start()
        except EngineStartError as fault:
            raise _Stopped(clean_lines(str(fault)), EXIT_ENGINE) from None

    def require_named(self, nodeids: Collection[str]) -> None:
        """Raise UsageError if a test that the command names was not collected."""
        tests = [nodeid.partition("::")[2] for nodeid in nodeids]
        for named in self._config.stash.get(NAMED_TESTS, ()):
            if not any(is_named(test, named) for test in tests):
                gates = [*self.judge_figures, *(gate.id for gate in self.thresholds.gates)]
                hint = near(gate_id(f"::{named}"), gates) or "."
                raise pytest.UsageError(
                    f"{clean(named)}: no such gate here{hint} --collect-only -q lists them"
                )

    def _wanted(self, nodeids: Collection[str]) -> dict[int, list[Gate]]:
        """The gates of these tests by candidate; the first candidate's run checks the judge."""
        ids = {gate_id(nodeid) for nodeid in nodeids}
        found: dict[int, list[Gate]] = {}
        for number, candidate in enumerate(self.candidates):
            for gate in self.thresholds.gates:
                if self.test_id(candidate, gate.id) in ids:
                    found.setdefault(number, []).append(gate)
        for nodeid in nodeids:
            is_judge = nodeid.rpartition("::")[2].startswith(f"{JUDGE_TEST}[")
            if is_judge and gate_id(nodeid) in self.judge_figures:
                found.setdefault(0, [])
        return found

    def unselected(self) -> Iterator[str]:
        """What there is to select, if no gate was."""
        given = {"-k": self._config.option.keyword, "-m": self._config.option.markexpr}
        asked = " ".join(f"{option} {text!r}" for option, text in given.items() if text)
        if not asked:
            yield "no gate was collected: `refusal-checks init` writes the test file that has them"
            return
        ids = [*self.judge_figures, *(gate.id for gate in self.thresholds.gates)]
        parts = {each for one in ids for each in (one, *one.split("-"))}
        near = get_close_matches(given["-k"], parts)
        meant = f'; did you mean "{near[0]}"?' if near else "."
        yield clean(f"{asked} selects none of {len(ids)} gates{meant} They are:", 500)
        yield from (f"  {name}" for name in ids[:40])
        if ids[40:]:
            yield f"  and {len(ids) - 40} more: --collect-only -q lists them all"

    def close(self, is_interrupted: bool = False) -> None:
        if self._series is not None:
            patience = {"patience": IMPATIENT} if is_interrupted else {}
            self._series.close(**patience)
        if self._watch is not None and not is_interrupted:  # else until the process ends
            self._watch.close()


def gate_id(nodeid: str) -> str:
    """The gate that a test's node id names: what its brackets hold, without pytest's escapes."""
    match = re.search(r"::\w+\[(.*)\]", nodeid, re.DOTALL)  # an IPv6 address has :: and [ too
    inner = match[1] if match else ""
    return inner.encode("ascii", "backslashreplace").decode("unicode_escape")


@contextmanager
def _usage_errors() -> Iterator[None]:
    """End the session with pytest's exit code for usage errors, 4, if the user's input is wrong."""
    try:
        yield
    except (UserError, StoreError) as fault:
        raise pytest.UsageError(clean_lines(str(fault))) from None
