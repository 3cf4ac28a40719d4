"""The gates of a pytest process and the result that their tests assert on.

One process evaluates: the only one, or xdist's controller.

=============  ================================================  =======================
process        evaluates                                         the result
=============  ================================================  =======================
plain run      once tests are collected, before the first runs   what ``evaluate`` gives
controller     once a worker has collected                       (runs no test)
worker         never                                             from the run's folder
=============  ================================================  =======================
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from refusal_checks.benchmarks import Benchmark
from refusal_checks.core import extensions
from refusal_checks.core.errors import DataError, EvaluationError, StoreError, UserError
from refusal_checks.core.files import resolved
from refusal_checks.core.suggestions import near
from refusal_checks.core.text import clean, clean_lines
from refusal_checks.gates import toml_file
from refusal_checks.judges import kind_of
from refusal_checks.judges.trust.check_sets import REFUSALS, SETS
from refusal_checks.judges.trust.floors import Figure
from refusal_checks.plugin import options, xdist
from refusal_checks.plugin.names import PREFIX
from refusal_checks.results.events import Notice, Prepared
from refusal_checks.results.project import RUNS_VARIABLE
from refusal_checks.spec import NAMED, Layer, RunSpec, named, override, usual_file

if TYPE_CHECKING:
    from refusal_checks.evaluation.config import Folders
    from refusal_checks.evaluation.result import RunResult
    from refusal_checks.reports.run_view import RunView
    from refusal_checks.results.events import Event, Listener, Underway

EXIT_ENGINE = 16
"""Exit code of a session that ended because an engine did not start."""

JUDGE_TEST = "test_judge"
"""Name of the test that checks the judge."""

NAMED_TESTS = pytest.StashKey[list[str]]()
"""The tests that a command names, such as ``test_gate[xstest_safe-rejection_rate]``."""

# Named like a built-in exception: pytest would put the name of any other module before the message.
_Stopped: type[Exception] = type(
    "Stopped", (pytest.exit.Exception,), {"__module__": "builtins"}
)


class GateSession:
    """The selected gates and the result; all processes of a run share its name."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._run_id = xdist.shared(config)["run"]
        self._result: RunResult | None = None
        self._has_evaluated = False
        self.underway: Underway | None = None

    @cached_property
    def spec(self) -> RunSpec:
        """The spec, from run files and options."""
        with _usage_errors():
            layers = _layers(self._config)
            return RunSpec.read(*self._files(layers), overrides=layers)

    def _files(self, layers: Sequence[Layer]) -> list[Path]:
        """The run files: those named, else the repository's own, else the shipped one."""
        named = self._named_files()
        if named:
            folder = self._config.invocation_params.dir
            return [toml_file.find(folder / name) for name in named]
        return [usual_file(self._config.rootpath, layers)]

    def _named_files(self) -> Sequence[str]:
        named: Sequence[str] = options.given(self._config).get("thresholds", ())
        return named or self._config.getini(f"{PREFIX}thresholds")

    @cached_property
    def kept(self) -> Folders:
        """The folders of the store and of runs."""
        from refusal_checks.evaluation.configure import folders  # not for collection

        own = self._configured("folder") or self._config.rootpath / ".refusal-checks"
        runs = self._configured("runs")
        named = os.environ.get(RUNS_VARIABLE, "").strip()
        if runs is None and named:
            folder = self._config.invocation_params.dir
            runs = resolved(folder / Path(named).expanduser())
        return folders(self.spec, own, runs or own / "runs")

    def _configured(self, key: str) -> Path | None:
        paths: list[Path] = self._config.getini(PREFIX + key)
        return Path(paths[0]) if paths else None

    @property
    def judge_figures(self) -> tuple[Figure, ...]:
        """The figures of the judges that gates may have; without any, those of refusals."""
        floors = self.spec.judge.check
        if not floors:
            return ()
        verdicts = {
            kind_of(self.benchmarks[name]).verdicts for name in self.spec.evaluated
        }
        checks = [SETS[name] for name in verdicts if name in SETS] or [REFUSALS]
        own = set(chain.from_iterable(check.figures for check in checks))
        return tuple(figure for figure in floors.figures if figure in own)

    @cached_property
    def benchmarks(self) -> Mapping[str, Benchmark]:
        """All benchmarks that gates may use, including those that run files define."""
        with _usage_errors():
            return self.spec.catalogue()

    def check_files(self) -> None:
        """Read run files that are named before anything is collected."""
        _ = self.benchmarks

    @property
    def run(self) -> RunView | None:
        """The run that this process evaluated, once it has ended."""
        return self._result.run if self._result else None

    def is_gate(self, nodeid: str) -> bool:
        return self._selected([nodeid]) is not None

    def evaluate(self, nodeids: Collection[str], listener: Listener) -> None:
        """Evaluate what the selected tests need, once. Does nothing if they need nothing.

        If an engine does not start, the session ends with EXIT_ENGINE.
        """
        if self._has_evaluated:
            return
        # A worker that finds a table wrong collects no gates, and says nothing.
        _ = self.benchmarks
        selected = self._selected(nodeids)
        if selected is None:
            return
        self._has_evaluated = True
        if self.spec.files == (toml_file.DEFAULT,) and not self._named_files():
            # In a wrong folder, other gates than one's own would decide without a word.
            listener(
                Notice(
                    f"no thresholds/default.toml in {self._config.rootpath}: these gates "
                    "come with refusal-checks"
                )
            )

        def listen(event: Event) -> None:
            if isinstance(event, Prepared):
                self.underway = event.run
            listener(event)

        # HTTP and templates, which collection need not import
        from refusal_checks.evaluation.evaluate import (
            Interrupted,
            NotStartedError,
            evaluate,
        )
        from refusal_checks.evaluation.interrupts import Watch

        watch = Watch()
        try:
            with _usage_errors():
                self._result = evaluate(
                    self.spec,
                    listen,
                    gates=selected,
                    run_id=self._run_id,
                    kept=self.kept,
                    write_reports=False,
                )
        except KeyboardInterrupt as stopped:
            # The watch lasts until the process ends, because ending must not take forever either.
            if isinstance(stopped, Interrupted):
                self._result = stopped.result
            raise KeyboardInterrupt from None
        except NotStartedError as fault:
            self._result = fault.result
            watch.close()
            raise _Stopped(clean_lines(str(fault)), EXIT_ENGINE) from None
        except BaseException:
            watch.close()
            raise
        watch.close()

    def result(self) -> RunResult:
        """The result of the evaluation; a worker reads it from the run's folder.

        Raises:
            EvaluationError: nothing was evaluated, or its files are missing.
        """
        if self._result is None and xdist.is_worker(self._config):
            self._result = self._load()
        if self._result is None:
            raise EvaluationError(
                "select gates beside this test: no gate of this session was evaluated"
            )
        return self._result

    def _load(self) -> RunResult | None:
        """Load the result that the controller wrote; None if it evaluated nothing."""
        from refusal_checks.evaluation.result import RunResult

        path = self.kept.runs / self._run_id
        if not path.exists():
            return None
        try:
            result = RunResult.load(path)
        except DataError as fault:
            raise EvaluationError(f"run it again: {fault}") from None
        if not result.run.folder.has_ended:
            raise EvaluationError(f"run it again: no summary was written in {path}")
        return result

    def require_named(self, nodeids: Collection[str]) -> None:
        """Raise UsageError if a test named by the command was not collected."""
        tests = [nodeid.partition("::")[2] for nodeid in nodeids]
        for name in self._config.stash.get(NAMED_TESTS, ()):
            if not any(is_named(test, name) for test in tests):
                gates = [*self.judge_figures, *self.spec.ids]
                hint = near(gate_id(f"::{name}"), gates) or "."
                raise pytest.UsageError(
                    f"{clean(name)}: no such gate here{hint} --collect-only -q lists them"
                )

    def _selected(self, nodeids: Collection[str]) -> list[str] | None:
        """Gates of these tests; empty if they only check the judge, None if none is of ours.

        Benchmarks that are only measured count as gates.
        """
        ids = {gate_id(nodeid) for nodeid in nodeids}
        gates = [name for name in self.spec.ids if name in ids]
        checks_judge = any(
            nodeid.rpartition("::")[2].startswith(f"{JUDGE_TEST}[")
            and gate_id(nodeid) in self.judge_figures
            for nodeid in nodeids
        )
        return gates if gates or checks_judge else None

    def unselected(self) -> Iterator[str]:
        """List the gates that can be selected, if none was."""
        given = {"-k": self._config.option.keyword, "-m": self._config.option.markexpr}
        asked = " ".join(f"{option} {text!r}" for option, text in given.items() if text)
        if not asked:
            yield "run `refusal-checks init`, which writes the test file of gates: none is here"
            return
        ids = [*self.judge_figures, *self.spec.ids]
        parts = set(ids)
        for name in ids:
            parts.update(name.split("-"))
        close = get_close_matches(given["-k"], parts)
        meant = f'; did you mean "{close[0]}"?' if close else "."
        yield clean(f"{asked} selects none of {len(ids)} gates{meant} They are:", 500)
        yield from (f"  {name}" for name in ids[:40])
        if ids[40:]:
            yield f"  and {len(ids) - 40} more: --collect-only -q lists them all"


def is_named(test: str, named: str) -> bool:
    """True if a node id is the named one, or a variant of it if the name has no brackets."""
    return named in (test, test.partition("[")[0])


def gate_id(nodeid: str) -> str:
    """The gate in a test's node id: the text in its brackets, without pytest's escapes."""
    # The name of the test is needed, because an IPv6 address has :: and [, too.
    match = re.search(r"::\w+\[(.*)\]", nodeid, re.DOTALL)
    inner = match[1] if match else ""
    return inner.encode("ascii", "backslashreplace").decode("unicode_escape")


def _layers(config: pytest.Config) -> list[Layer]:
    """The command line's layers of keys; later ones win.

    Raises:
        UserError: a ``--set`` is malformed.
    """
    given = options.given(config)
    layers = [override(text) for text in given.get("set", ())]
    for name, value in given.items():
        if name in NAMED:
            layers.append(named(name, value, options.prefix(config)))
    return layers


@contextmanager
def _usage_errors() -> Iterator[None]:
    """End the session with pytest's exit code for usage errors (4) if the user's input is wrong."""
    try:
        yield
    except (UserError, StoreError) as fault:
        raise pytest.UsageError(clean_lines(str(fault))) from None
    except Exception as fault:
        place = extensions.blamed_line(fault)
        if not place:
            raise
        raise pytest.UsageError(
            f"fix {place}: this extension raised {type(fault).__name__}: {clean(str(fault), 500)}"
        ) from None
