"""Evaluate a run: a ``RunSpec`` in, a ``RunResult`` out."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

from refusal_checks.core.errors import EngineStartError, UserError, require_known
from refusal_checks.core.files import permitted, read_anew, resolved
from refusal_checks.core.store_lock import StoreLock
from refusal_checks.evaluation.inputs import COMMANDS, Folders, folders, read_inputs
from refusal_checks.evaluation.interrupts import as_interrupts, ctrl_c_raises
from refusal_checks.evaluation.result import RunResult
from refusal_checks.evaluation.run import Run
from refusal_checks.reports import formats
from refusal_checks.reports.run_view import RunView
from refusal_checks.results import project
from refusal_checks.results.events import Event, Listener, Notice, Prepared
from refusal_checks.spec import NAMED, RunSpec


class Interrupted(KeyboardInterrupt):
    """Raised when an evaluation is interrupted; ``result`` holds what was done until then."""

    def __init__(self, result: RunResult) -> None:
        super().__init__("the evaluation was stopped before it was complete")
        self.result = result


class NotStartedError(EngineStartError):
    """Raised when an engine did not start; ``result`` holds no decision."""

    def __init__(self, why: str, result: RunResult) -> None:
        super().__init__(why)
        self.result = result


def evaluate(
    spec: RunSpec,
    on_event: Listener | None = None,
    *,
    gates: Collection[str] | None = None,
    run_id: str = "",
    kept: Folders | None = None,
    write_reports: bool = True,
) -> RunResult:
    """Evaluate the candidate of a spec and decide its gates.

    This starts and stops engines, asks servers, and stores answers and verdicts. Whatever is
    stored is not asked for again, so a repeated call continues an interrupted one. The whole spec
    is checked before anything starts. The function runs its own event loop, so it may be called
    where one runs already, as in a notebook.

    Args:
        spec: what to evaluate; see ``RunSpec.read``.
        on_event: called with each event, in order (see ``results.events``); ``print`` shows them.
            The evaluation waits for it. If it raises, it gets no further events, and ``evaluate``
            raises the exception at the end.
        gates: ids of the gates to decide, and of benchmarks without gates to measure; None for
            all. With none, only the judge is checked.
        run_id: the name of the run's folder; by default the time.
        kept: folders of the store and of runs, unless the spec names them.
        write_reports: write the files that the spec's ``reports`` name.

    Returns:
        Verdicts, figures and the release decision, as ``load_run`` returns them later.

    Raises:
        UserError: something in the spec is wrong; the message says what to write.
        NotStartedError: an engine did not start.
        StoreError: the store cannot be read or written.
        Interrupted: a KeyboardInterrupt, by Ctrl-C or SIGTERM; it has the result so far. One
            before the run is prepared is a plain KeyboardInterrupt.
    """
    if not isinstance(spec, RunSpec):
        raise UserError("evaluate: give a RunSpec: RunSpec.from_dict(...) makes one")
    session = _Session(
        spec,
        EventHub(on_event),
        _selected(gates, spec),
        run_id or project.new_run_id(),
        kept or folders(spec),
    )
    try:
        if _has_loop():
            return session.in_thread(write_reports)
        return session.work(write_reports)
    except UserError as fault:
        if kept:  # pytest and commands name the folders, and their users type options
            raise
        raise type(fault)(_in_keys(str(fault))) from None


_EXAMPLE = (
    '    spec.with_values({"candidate.model": "ORG/MODEL", "judge.model": "ORG/JUDGE"})'
)


def _in_keys(message: str) -> str:
    """Name keys in a message in place of the command line's options."""
    text = message.replace(COMMANDS, _EXAMPLE).replace("--set ", "")
    for option, key in NAMED.items():
        text = re.sub(rf"--{option}(?![\w-])", key, text)
    return text


def _selected(gates: Collection[str] | None, spec: RunSpec) -> Collection[str]:
    """The ids to evaluate; UserError if one does not exist."""
    if gates is None:
        if not spec.ids:
            raise UserError("no benchmark: add the table of one, such as xstest_unsafe")
        return spec.ids
    for gate_id in gates:
        require_known(gate_id, spec.ids, "gates", "gate", UserError)
    return gates


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class EventHub:
    """Passes events to the caller's listener.

    If the listener raises, it gets no further events and the run goes on; ``raise_fault`` raises
    the exception at the end.
    """

    def __init__(self, listener: Listener | None) -> None:
        self._listener = listener
        self._fault: Exception | None = None
        # Engines that start say so from threads of their own.
        self._telling = threading.RLock()

    def tell(self, event: Event) -> None:
        with self._telling:
            if self._listener is not None and self._fault is None:
                try:
                    self._listener(event)
                except Exception as fault:
                    self._fault = fault

    def say(self, text: str) -> None:
        self.tell(Notice(text))

    def raise_fault(self) -> None:
        if self._fault is not None:
            raise self._fault


class _Session:
    """One call of ``evaluate``."""

    def __init__(
        self,
        spec: RunSpec,
        events: EventHub,
        selected: Collection[str],
        run_id: str,
        kept: Folders,
    ) -> None:
        self._spec = spec
        self._events = events
        self._selected = selected
        self._run_id = run_id
        self._kept = kept
        self._run: Run | None = None
        self._lock: StoreLock | None = None
        self._is_cancelled = False

    def work(self, write_reports: bool) -> RunResult:
        """Evaluate the candidate, in this thread.

        Raises:
            Interrupted: it was stopped.
            NotStartedError: an engine did not start.
        """
        is_stopped = False
        not_started: EngineStartError | None = None
        with as_interrupts():
            try:
                formats.check(self._spec)
                self._prepare()
                assert self._run
                self._run.work()
            except KeyboardInterrupt:
                if self._run is None:
                    raise
                is_stopped = True
                self._run.stop_engines()
                self._run.finish()
            except EngineStartError as fault:
                if self._run is None:
                    raise
                not_started = fault
            finally:
                if self._lock:
                    self._lock.release()
            run = self._run
            result = RunResult(RunView(run.recorder.folder, run.recorder.summary))
            try:
                if write_reports:
                    for line in result.write_reports(self._spec.reports):
                        self._events.say(line)
            except KeyboardInterrupt:
                is_stopped = True
        if is_stopped:
            raise Interrupted(result)
        if not_started:
            raise NotStartedError(str(not_started), result) from not_started
        self._events.raise_fault()
        return result

    def in_thread(self, write_reports: bool) -> RunResult:
        """Run ``work`` in a thread of its own, and pass interrupts on to it."""
        ended: SimpleQueue[RunResult | BaseException] = SimpleQueue()

        def work() -> None:
            try:
                ended.put(self.work(write_reports))
            except BaseException as fault:
                ended.put(fault)

        thread = threading.Thread(target=work, name="evaluation", daemon=True)
        with ctrl_c_raises(), as_interrupts():
            thread.start()
            try:
                thread.join()
            except KeyboardInterrupt:
                # First of all: the thread may be about to make the run.
                self._is_cancelled = True
                if self._run:
                    self._run.cancel()
                thread.join()
        outcome = ended.get()
        if isinstance(outcome, BaseException):
            raise outcome
        if self._is_cancelled:
            raise Interrupted(outcome)
        return outcome

    def _prepare(self) -> None:
        """Read and check all that the run needs; if it cannot begin, close everything."""
        try:
            run = self._run = self._make_run()
            if self._is_cancelled:
                raise KeyboardInterrupt
            if (
                resolved(self._kept.own)
                not in resolved(run.recorder.folder.path).parents
            ):
                keep_private(run.recorder.folder.path)
            self._events.tell(Prepared(run.recorder.underway))
            self._events.raise_fault()
        except BaseException:
            if self._run:
                self._run.abandon()
                self._run = None
            raise

    @permitted()
    def _make_run(self) -> Run:
        # HTTP and templates, which collection need not import
        from refusal_checks.evaluation.prepare import prepare

        read_anew()
        inputs = read_inputs(self._spec, self._kept, self._selected)
        keep_private(self._kept.own)
        path = self._kept.runs / self._run_id
        is_name = Path(self._run_id).name == self._run_id
        if path.exists() or not is_name:
            raise UserError(
                f"run_id {self._run_id}: name a run that does not exist: {path}"
            )
        self._lock = StoreLock(inputs.store)
        self._lock.take(path, self._events.say, lambda: self._is_cancelled)
        return Run(prepare(inputs, path, self._events.say), self._events.tell)


def keep_private(folder: Path) -> None:
    """Keep git from committing the store and the runs: their texts may be harmful."""
    with suppress(OSError):  # the run itself reports that it cannot write
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".gitignore").open("x") as file:
            file.write("*\n")
