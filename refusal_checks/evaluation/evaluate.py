"""Evaluate a run: a ``RunSpec`` in, a ``RunResult`` out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

from refusal_checks.core.errors import EngineStartError, UserError, require_known
from refusal_checks.core.files import permitted, read_anew, resolved
from refusal_checks.evaluation.config import Folders
from refusal_checks.evaluation.configure import configure, folders
from refusal_checks.evaluation.interrupts import as_interrupts, ctrl_c_raises
from refusal_checks.evaluation.model_config import titles
from refusal_checks.evaluation.result import RunResult
from refusal_checks.evaluation.run import Run, evaluate_in_turn
from refusal_checks.gates.gate import Gate
from refusal_checks.reports import formats
from refusal_checks.results import project
from refusal_checks.results.events import Event, Listener, Notice, Prepared, Underway
from refusal_checks.results.run_folder import RunFolder, RunView
from refusal_checks.spec import ReportsTable, RunSpec

GateIds = Mapping[str, Collection[str]]
"""Ids of gates by candidate; for a candidate with none, only the judge is checked."""


class Interrupted(KeyboardInterrupt):
    """Raised when an evaluation is interrupted; ``result`` holds what was done until then."""

    def __init__(self, result: RunResult) -> None:
        super().__init__("the evaluation was stopped before it was complete")
        self.result = result


class NotStartedError(EngineStartError):
    """Raised when the only candidate's engine did not start; ``result`` holds no decision."""

    def __init__(self, why: str, result: RunResult) -> None:
        super().__init__(why)
        self.result = result


def evaluate(
    spec: RunSpec,
    on_event: Listener | None = None,
    *,
    gates: GateIds | None = None,
    run_id: str = "",
    kept: Folders | None = None,
    write_reports: bool = True,
) -> RunResult:
    """Evaluate the candidates of a spec in turn and decide their gates.

    This starts and stops engines, asks servers, and stores answers and verdicts. Whatever is
    stored is not asked for again, so a repeated call continues an interrupted one. The whole spec
    is checked before anything starts. The function runs its own event loop, so it may be called
    where one runs already, as in a notebook.

    Args:
        spec: what to evaluate; see ``RunSpec.read``.
        on_event: called with each event, in order (see ``results.events``); ``print`` shows them.
            The evaluation waits for it. If it raises, it gets no further events, and ``evaluate``
            raises the exception at the end.
        gates: the gates to decide, by candidate; None for all.
        run_id: start of the name of the run's folder; by default the time.
        kept: folders of the store and of runs, unless the spec names them.
        write_reports: write the files that the spec's ``reports`` name.

    Returns:
        Verdicts, figures and the release decision, as ``load_run`` returns them later.

    Raises:
        UserError: something in the spec is wrong; the message says what to write.
        NotStartedError: the engine of the only candidate did not start.
        StoreError: the store cannot be read or written.
        Interrupted: a KeyboardInterrupt, by Ctrl-C or SIGTERM; it has the result so far.
    """
    selection = Selection(gates, titles(spec), spec.gates)
    session = _Session(
        spec,
        EventHub(on_event),
        selection,
        run_id or project.new_run_id(),
        kept or folders(spec),
    )
    if _has_loop():
        return session.in_thread(write_reports)
    return session.work(write_reports)


def run_folders(runs: Path, run_id: str, candidates: int) -> list[Path]:
    """The folder of each candidate's run; they sort in the order of the candidates."""
    if candidates == 1:
        return [runs / run_id]
    return [runs / f"{run_id}-{number}" for number in range(1, candidates + 1)]


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class EventHub:
    """Passes events to the caller's listener and to the reports that follow a run.

    If the listener raises, it gets no further events and the run goes on; ``raise_fault`` raises
    the exception at the end.
    """

    def __init__(self, listener: Listener | None) -> None:
        self._listener = listener
        self._fault: Exception | None = None
        self._followers: list[formats.Follower] = []
        # Engines that start and pages that are written say so from threads of their own.
        self._telling = threading.RLock()

    def tell(self, event: Event) -> None:
        with self._telling:
            if self._listener is not None and self._fault is None:
                try:
                    self._listener(event)
                except Exception as fault:
                    self._fault = fault
            for follower in self._followers:
                follower.see(event)

    def say(self, text: str) -> None:
        self.tell(Notice(text))

    def raise_fault(self) -> None:
        if self._fault is not None:
            raise self._fault

    def follow(self, reports: ReportsTable, runs: Sequence[Underway]) -> None:
        """Start the reports that show runs from the first answer on."""
        for follower in formats.follow(reports, runs, self.say):
            self._followers.append(follower)  # each is stopped, whatever the next does

    def stop_followers(self) -> None:
        for follower in self._followers:
            follower.stop()


class Selection:
    """The gates to decide for each candidate.

    Args:
        gates: their ids, by candidate; None for all gates of all candidates.
        candidates: the names of all candidates.
    """

    def __init__(
        self,
        gates: GateIds | None,
        candidates: Sequence[str],
        all_gates: Sequence[Gate],
    ) -> None:
        self._gates = gates
        self._candidates = candidates
        self._all_gates = all_gates

    def by_candidate(self) -> list[Sequence[Gate] | None]:
        """Return the gates of each candidate, in order; None for a candidate that is left out.

        Raises:
            UserError: a candidate or a gate does not exist.
        """
        if self._gates is None:
            return [self._all_gates for _ in self._candidates]
        for name, ids in self._gates.items():
            require_known(name, self._candidates, "gates", "candidate", UserError)
            gate_ids = [gate.id for gate in self._all_gates]
            for gate_id in ids:
                require_known(gate_id, gate_ids, name, "gate", UserError)
        selected: list[Sequence[Gate] | None] = []
        for name in self._candidates:
            if name in self._gates:
                ids = set(self._gates[name])
                selected.append([gate for gate in self._all_gates if gate.id in ids])
            else:
                selected.append(None)
        return selected


class _Session:
    """One call of ``evaluate``."""

    def __init__(
        self,
        spec: RunSpec,
        events: EventHub,
        selection: Selection,
        run_id: str,
        kept: Folders,
    ) -> None:
        self._spec = spec
        self._events = events
        self._selection = selection
        self._run_id = run_id
        self._kept = kept
        self._runs: list[Run] = []
        self._is_cancelled = False

    def work(self, write_reports: bool) -> RunResult:
        """Evaluate all candidates, in this thread.

        Raises:
            Interrupted: it was stopped.
            NotStartedError: the engine of the only candidate did not start.
        """
        is_stopped = False
        not_started: EngineStartError | None = None
        with as_interrupts():
            try:
                formats.check(self._spec.reports)
                self._prepare()
                evaluate_in_turn(self._runs)
            except KeyboardInterrupt:
                is_stopped = True
                self._end_runs()
            except EngineStartError as fault:
                not_started = fault
            finally:
                self._events.stop_followers()
            result = self._result()
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
                # First of all: the thread may be about to make another run.
                self._is_cancelled = True
                for run in reversed(self._runs):
                    run.cancel()
                thread.join()
        outcome = ended.get()
        if isinstance(outcome, BaseException):
            raise outcome
        if self._is_cancelled:
            raise Interrupted(outcome)
        return outcome

    def _end_runs(self) -> None:
        """Write the summaries of runs that were stopped, even before the first one began."""
        for run in reversed(self._runs):
            run.stop_engines()
            run.finish()

    def _prepare(self) -> None:
        """Read and check all that the runs need; if one cannot begin, close everything."""
        try:
            self._make_runs()
            for run in self._runs:
                if resolved(self._kept.own) not in resolved(run.folder.path).parents:
                    keep_private(run.folder.path)
            underway = tuple(run.underway for run in self._runs)
            self._events.tell(Prepared(underway))
            self._events.follow(self._spec.reports, underway)
            self._events.raise_fault()
        except BaseException:
            for run in self._runs:
                run.abandon()
            self._runs.clear()
            raise

    @permitted()
    def _make_runs(self) -> None:
        # HTTP and templates, which collection need not import
        from refusal_checks.engines.pool import Shared
        from refusal_checks.engines.stored_only import StoredModels
        from refusal_checks.evaluation.prepare import prepare

        read_anew()
        configs = configure(self._spec, self._kept)
        keep_private(self._kept.own)
        selected = self._selection.by_candidate()
        paths = run_folders(self._kept.runs, self._run_id, len(configs))
        self._require_new(paths)
        shared: Shared = {}
        verified: dict[str, str] = {}
        for config, path, gates in zip(configs, paths, selected, strict=True):
            if gates is None:
                continue
            servers = StoredModels() if config.stored_only else None
            say = self._events.say
            prepared = prepare(config, gates, path, say, verified, servers, shared)
            # Those of a candidate that is left out are left out, too.
            known = len(self._spec.gates) * (1 + selected.count(None))
            selection = {
                "selected": len(gates),
                "known": known,
                "all_required": self._spec.settings.require_all,
            }
            summary = prepared.summary
            summary.manifest = summary.manifest.extended(gates=selection)
            title = ""
            if len(configs) > 1:
                candidate = config.answering
                title = f"{candidate.model.name} ({candidate.number} of {len(configs)})"
            self._runs.append(Run(prepared, self._events.tell, title))
            if self._is_cancelled:
                raise KeyboardInterrupt

    def _require_new(self, paths: Sequence[Path]) -> None:
        """Refuse a run id that is taken or cannot be a folder's name."""
        is_name = Path(self._run_id).name == self._run_id
        for path in paths:
            if path.exists() or not is_name:
                raise UserError(
                    f"run_id {self._run_id}: name a run that does not exist: {path}"
                )

    def _result(self) -> RunResult:
        views = []
        for number, run in enumerate(self._runs):
            folder = RunFolder(run.folder.path)
            views.append(RunView(folder, run.summary, number))
        return RunResult(views)


def keep_private(folder: Path) -> None:
    """Keep git from committing the store and the runs: their texts may be harmful."""
    with suppress(OSError):  # the run itself reports that it cannot write
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".gitignore").open("x") as file:
            file.write("*\n")
