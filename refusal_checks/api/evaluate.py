"""Evaluate a run: a ``RunSpec`` in, a ``RunResult`` out."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Collection
from queue import SimpleQueue
from typing import TYPE_CHECKING

from refusal_checks.api.interrupts import ctrl_c_as_interrupt, signals_as_interrupts
from refusal_checks.api.result import RunResult
from refusal_checks.config.run_spec import RunSpec
from refusal_checks.config.tables import NAMED
from refusal_checks.core.errors import EngineStartError, UserError, require_known
from refusal_checks.reports import formats
from refusal_checks.results import project
from refusal_checks.results.events import Event, Judged, Listener, Notice
from refusal_checks.run.inputs import COMMANDS, Folders, choose_folders, read_inputs
from refusal_checks.run.pipeline import Pipeline
from refusal_checks.run.recorder import Recorder

if TYPE_CHECKING:
    from refusal_checks.run.run_session import RunSession


# Programs that embed ``evaluate`` choose what to do with it; without a handler, logging would print
# to stderr.
_LOGGER = logging.getLogger("refusal_checks")
_LOGGER.addHandler(logging.NullHandler())


class Interrupted(KeyboardInterrupt):
    """Raised when an evaluation is interrupted; ``result`` has what was done so far."""

    def __init__(self, result: RunResult) -> None:
        super().__init__("the evaluation was stopped before it was complete")
        self.result = result


class NotStartedError(EngineStartError):
    """Raised when an engine did not start; ``result`` has no decision."""

    def __init__(self, why: str, result: RunResult) -> None:
        super().__init__(why)
        self.result = result


def evaluate(
    spec: RunSpec,
    on_event: Listener | None = None,
    *,
    gates: Collection[str] | None = None,
    run_id: str = "",
    folders: Folders | None = None,
    write_reports: bool = True,
) -> RunResult:
    """Evaluate the candidate of a spec and decide its gates.

    Checks the whole spec, then starts and stops engines, asks servers, and stores answers and
    verdicts. Nothing that is stored is asked for again, so repeating the call continues an
    interrupted one. It has its own event loop, so it also works where one is running, as in a
    notebook.

    Args:
        spec: what to evaluate; see ``RunSpec.read``.
        on_event: called with each event, in order (see ``results.events``); ``print`` shows them.
            The evaluation waits for it. If it raises, it gets no further events, and ``evaluate``
            raises the exception at the end.
        gates: ids of the gates to decide, and of benchmarks without gates to measure; None for
            all. With an empty list, only the judge is checked.
        run_id: the name of the run's folder; by default the start time.
        folders: the folders for the store and runs, unless the spec names them.
        write_reports: whether to write the reports that the spec asks for.

    Returns:
        Verdicts, figures and the release decision; ``load_run`` returns the same later.

    Raises:
        UserError: something in the spec is wrong; the message says what to write.
        NotStartedError: an engine did not start.
        StoreError: the store cannot be read or written.
        Interrupted: Ctrl-C or SIGTERM ended it; has the result so far. It is a KeyboardInterrupt,
            and a plain one is raised before the run is prepared.
    """
    if not isinstance(spec, RunSpec):
        raise UserError("evaluate: pass a RunSpec, such as RunSpec.from_dict(...)")
    if on_event is not None and not callable(on_event):
        raise UserError("evaluate: pass a function as on_event, such as print")
    evaluation = _Evaluation(
        spec, EventHub(on_event), run_id or project.new_run_id(), write_reports
    )
    work = evaluation.run_in_thread if _has_loop() else evaluation.run
    try:
        return work(folders or choose_folders(spec), _select_gates(gates, spec))
    except UserError as fault:
        # Only pytest and commands name the folders, and their users type options.
        if folders:
            raise
        raise type(fault)(_name_keys(str(fault))) from None


_EXAMPLE = (
    '    spec.with_values({"candidate.model": "ORG/MODEL", "judge.model": "ORG/JUDGE"})'
)


def _name_keys(message: str) -> str:
    """Replace the command line's options in a message by the run file's keys."""
    text = message.replace(COMMANDS, _EXAMPLE).replace("--set ", "")
    for option, key in NAMED.items():
        text = re.sub(rf"--{option}(?![\w-])", key, text)
    return text


def _select_gates(gates: Collection[str] | None, spec: RunSpec) -> Collection[str]:
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
    """Passes events to the caller's listener, and their text to the package's logger.

    If the listener raises, it gets no further events and the run goes on; ``raise_fault`` raises
    the exception at the end.
    """

    def __init__(self, listener: Listener | None) -> None:
        self._listener = listener
        self._fault: Exception | None = None
        # Engines that start say so from threads of their own.
        self._telling = threading.RLock()

    def tell(self, event: Event) -> None:
        # One event a prompt is too much for a log's usual level.
        level = logging.DEBUG if isinstance(event, Judged) else logging.INFO
        with self._telling:
            _LOGGER.log(level, "%s", event)
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


class _Evaluation:
    """One call of ``evaluate``: it runs in one thread, and another may interrupt it."""

    def __init__(
        self, spec: RunSpec, events: EventHub, run_id: str, write_reports: bool
    ) -> None:
        self._spec = spec
        self._events = events
        self._run_id = run_id
        self._write_reports = write_reports
        self._pipeline: Pipeline | None = None
        self._is_cancelled = False

    def run(self, folders: Folders, selected: Collection[str]) -> RunResult:
        """Evaluate in this thread.

        Raises:
            Interrupted: it was stopped.
            NotStartedError: an engine did not start.
        """
        # HTTP and templates, which collection need not import
        from refusal_checks.run.run_session import open_session

        ended: BaseException | None = None
        with signals_as_interrupts():
            formats.check(self._spec)
            inputs = read_inputs(self._spec, folders, selected)
            with open_session(
                inputs, self._run_id, self._events.say, lambda: self._is_cancelled
            ) as session:
                recorder = Recorder(session, self._events.tell)
                pipeline = self._announce(session, recorder)
                try:
                    pipeline.run()
                except (KeyboardInterrupt, EngineStartError) as fault:
                    ended = fault
            # Engines, store and lock are closed: reports may take long, and the next run may begin.
            result = RunResult(recorder.folder, recorder.summary)
            try:
                self._report(result)
            except KeyboardInterrupt as fault:
                ended = fault
        if isinstance(ended, KeyboardInterrupt):
            raise Interrupted(result)
        if ended:
            raise NotStartedError(str(ended), result) from ended
        self._events.raise_fault()
        return result

    def _announce(self, session: RunSession, recorder: Recorder) -> Pipeline:
        """Announce that everything is prepared; from here on, every ending leaves a result."""
        pipeline = self._pipeline = Pipeline(session, recorder)
        # Who interrupts sets this first, and then looks for a pipeline: one of the two is noticed.
        if self._is_cancelled:
            raise KeyboardInterrupt
        self._events.tell(recorder.prepared)
        self._events.raise_fault()
        return pipeline

    def _report(self, result: RunResult) -> None:
        if self._write_reports:
            for line in result.write_reports(self._spec.reports):
                self._events.say(line)

    def run_in_thread(self, folders: Folders, selected: Collection[str]) -> RunResult:
        """Call ``run`` in a thread of its own, and pass interrupts on to it."""
        ended: SimpleQueue[RunResult | BaseException] = SimpleQueue()

        def work() -> None:
            try:
                ended.put(self.run(folders, selected))
            except BaseException as fault:
                ended.put(fault)

        # A daemon, so that a second Ctrl-C ends the process at once.
        thread = threading.Thread(target=work, name="evaluation", daemon=True)
        with ctrl_c_as_interrupt(), signals_as_interrupts():
            thread.start()
            try:
                thread.join()
            except KeyboardInterrupt:
                # First of all: the thread may be about to make the run.
                self._is_cancelled = True
                if self._pipeline:
                    self._pipeline.cancel()
                thread.join()
        outcome = ended.get()
        if isinstance(outcome, BaseException):
            raise outcome
        if self._is_cancelled:
            raise Interrupted(outcome)
        return outcome
