"""``evaluate``: a spec in, a result out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

from refusal_checks.core.errors import EngineStartError, UserError, require_known
from refusal_checks.core.files import resolved
from refusal_checks.evaluation.config import Folders, configure, folders, titles
from refusal_checks.evaluation.interrupts import as_interrupts, ctrl_c_raises
from refusal_checks.evaluation.result import RunResult
from refusal_checks.evaluation.run import Run, evaluate_in_turn
from refusal_checks.gates.gate import Gate
from refusal_checks.reports import formats
from refusal_checks.results import project
from refusal_checks.results.events import Event, Listener, Message, Prepared
from refusal_checks.results.run_folder import RunFolder, RunView
from refusal_checks.spec import RunSpec

Selection = Mapping[str, Collection[str]]
"""Ids of gates by candidate; a candidate without any is only asked to have its judge checked."""


class Interrupted(KeyboardInterrupt):
    """An evaluation that was interrupted; ``result`` has what was done until then."""

    def __init__(self, result: RunResult) -> None:
        super().__init__("the evaluation was stopped before it was complete")
        self.result = result


class NotStartedError(EngineStartError):
    """The engine of the only candidate did not start; ``result`` says that nothing was decided."""

    def __init__(self, why: str, result: RunResult) -> None:
        super().__init__(why)
        self.result = result


def evaluate(
    spec: RunSpec,
    on_event: Listener | None = None,
    *,
    gates: Selection | None = None,
    run_id: str = "",
    kept: Folders | None = None,
    write_reports: bool = True,
) -> RunResult:
    """Evaluate the candidates of a spec, one after the other, and decide their gates.

    Engines are started and stopped, servers asked, answers and verdicts stored: what is stored
    already is used, so a call that was interrupted goes on where it stopped when it is repeated.
    Nothing starts before the whole spec is checked. It may be called where an event loop runs, as
    in a notebook: it has one of its own.

    Args:
        spec: what to evaluate; see ``RunSpec.read``.
        on_event: is told what happens, one event at a time; see ``results.events`` for the
            events. ``print`` shows them all. The evaluation waits for it. If it raises, it is told
            nothing more, and ``evaluate`` raises that when the evaluation has ended.
        gates: the gates to decide, by candidate; all of them if it is None.
        run_id: begins the name of the run's folder; made from the time if it is empty.
        kept: the folders of the store and of runs, unless the spec names them.
        write_reports: write the files that the spec's ``reports`` name when all has ended.

    Returns:
        Verdicts, figures and the release decision; the same as ``load_run`` returns later.

    Raises:
        UserError: something in the spec is wrong; the message says what to write.
        NotStartedError: the engine of the only candidate did not start.
        StoreError: the store cannot be read or written.
        Interrupted: a KeyboardInterrupt, by Ctrl-C or SIGTERM; it has the result so far.
    """
    session = _Session(
        spec, on_event or _ignore, gates, run_id or project.new_run_id(), kept
    )
    if _has_loop():
        return session.in_thread(write_reports)
    return session.work(write_reports)


def run_folders(runs: Path, run_id: str, candidates: int) -> list[Path]:
    """The folder of each candidate's run; they sort in the order of the candidates."""
    if candidates == 1:
        return [runs / run_id]
    return [runs / f"{run_id}-{number}" for number in range(1, candidates + 1)]


def _ignore(event: Event) -> None:
    """Take no notice of an event."""


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _Session:
    """One call of ``evaluate``."""

    def __init__(
        self,
        spec: RunSpec,
        listener: Listener,
        gates: Selection | None,
        run_id: str,
        kept: Folders | None,
    ) -> None:
        self._spec = spec
        self._listener = listener
        self._gates = gates
        self._run_id = run_id
        self._kept = kept or folders(spec)
        # Engines that start and pages that are written say so from threads of their own.
        self._telling = threading.RLock()
        self._listener_fault: Exception | None = None
        self._runs: list[Run] = []
        self._followers: list[formats.Follower] = []
        self._is_cancelled = False

    def work(self, write_reports: bool) -> RunResult:
        is_stopped = False
        not_started: EngineStartError | None = None
        with as_interrupts():
            try:
                formats.check(self._spec.reports)
                self._prepare()
                evaluate_in_turn(self._runs)
            except KeyboardInterrupt:
                is_stopped = True
                for run in reversed(
                    self._runs
                ):  # it may have come before the first one began
                    run.stop_engines()
                    run.finish()
            except EngineStartError as fault:
                not_started = fault
            finally:
                for follower in self._followers:
                    follower.stop()
            result = self._result()
            try:
                self._write(result, write_reports)
            except KeyboardInterrupt:
                is_stopped = True
        if is_stopped:
            raise Interrupted(result)
        if not_started:
            raise NotStartedError(str(not_started), result) from not_started
        self._raise_listener_fault()
        return result

    def _write(self, result: RunResult, write_reports: bool) -> None:
        """Write what shows the runs; of those that were stopped it shows what is done."""
        if write_reports:
            for line in result.write_reports(self._spec.reports):
                self._say(line)

    def in_thread(self, write_reports: bool) -> RunResult:
        """Work in a thread of its own, and pass on an interrupt of this one."""
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
                self._is_cancelled = (
                    True  # first: the thread may be about to make another run
                )
                for run in reversed(self._runs):
                    run.cancel()
                thread.join()
        outcome = ended.get()
        if isinstance(outcome, BaseException):
            raise outcome
        if self._is_cancelled:
            raise Interrupted(outcome)
        return outcome

    def _say(self, text: str) -> None:
        self._tell(Message(text))

    def _tell(self, event: Event) -> None:
        """Pass an event on to the caller, and to the reports that follow a run.

        If the caller's listener raises, the run goes on, and the exception is raised at its end.
        """
        with self._telling:
            if self._listener_fault is None:
                try:
                    self._listener(event)
                except Exception as fault:
                    self._listener_fault = fault
            for follower in self._followers:
                follower.see(event)

    def _raise_listener_fault(self) -> None:
        if self._listener_fault is not None:
            raise self._listener_fault

    def _prepare(self) -> None:
        """Read and check all that the runs need; nothing stays open if one of them cannot begin."""
        try:
            self._make_runs()
            for run in self._runs:
                if resolved(self._kept.own) not in resolved(run.folder.path).parents:
                    keep_private(run.folder.path)
            underway = tuple(run.underway for run in self._runs)
            self._tell(Prepared(underway))
            for follower in formats.follow(self._spec.reports, underway, self._say):
                self._followers.append(
                    follower
                )  # one by one: each is stopped, whatever fails
            self._raise_listener_fault()
        except BaseException:
            for run in self._runs:
                run.abandon()
            self._runs.clear()
            raise

    def _make_runs(self) -> None:
        # HTTP and templates, which collection need not import
        from refusal_checks.engines.batch.batch_models import BatchModels
        from refusal_checks.engines.pool import Shared
        from refusal_checks.evaluation.prepare import prepare

        configs = configure(self._spec, self._kept)
        keep_private(self._kept.own)
        selected = self._selected()
        paths = run_folders(self._kept.runs, self._run_id, len(configs))
        for path in paths:
            if path.exists() or Path(self._run_id).name != self._run_id:
                raise UserError(
                    f"run_id {self._run_id}: name a run that does not exist: {path}"
                )
        shared: Shared = {}
        verified: dict[str, str] = {}
        for place, (config, path) in enumerate(zip(configs, paths, strict=True), 1):
            chosen = selected[place - 1]
            if chosen is None:
                continue
            servers = BatchModels(config.store) if config.stored_only else None
            run = prepare(config, chosen, path, self._say, verified, servers, shared)
            selection = {"selected": len(chosen), "known": len(self._spec.gates)}
            run.summary.manifest = run.summary.manifest.extended(gates=selection)
            name = config.answering.model.name
            title = f"{name} ({place} of {len(configs)})" if len(configs) > 1 else ""
            self._runs.append(Run(run, self._tell, title))
            if self._is_cancelled:
                raise KeyboardInterrupt

    def _selected(self) -> list[list[Gate] | None]:
        """The gates to decide for each candidate; None for one that is left out."""
        gates, names = self._spec.gates, titles(self._spec)
        if self._gates is None:
            return [list(gates) for _ in names]
        selected: list[list[Gate] | None] = []
        for name in self._gates:
            require_known(name, names, "gates", "candidate", UserError)
        for name in names:
            if name not in self._gates:
                selected.append(None)
                continue
            ids = set(self._gates[name])
            for gate_id in ids:
                require_known(
                    gate_id, (gate.id for gate in gates), name, "gate", UserError
                )
            selected.append([gate for gate in gates if gate.id in ids])
        return selected

    def _result(self) -> RunResult:
        return RunResult(
            [
                RunView(RunFolder(run.folder.path), run.summary, number)
                for number, run in enumerate(self._runs)
            ]
        )


def keep_private(folder: Path) -> None:
    """Keep git from committing the store and runs: texts may be harmful."""
    with suppress(OSError):  # a run that cannot write says so itself
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".gitignore").open("x") as file:
            file.write("*\n")
