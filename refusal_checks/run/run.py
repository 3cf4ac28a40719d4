"""One run, from the selected gates to their verdicts: starts engines, evaluates, decides."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack

from refusal_checks.core.errors import RefusalChecksError, reason
from refusal_checks.core.store import Store
from refusal_checks.engines.pool import Engines
from refusal_checks.engines.servers import Servers
from refusal_checks.gates.early_stopping import EarlyStopping, shuffled
from refusal_checks.gates.finding import Rules
from refusal_checks.gates.gate import Gate
from refusal_checks.models.identity import Model
from refusal_checks.results.board import Board, JudgeOutcome
from refusal_checks.results.progress import Progress
from refusal_checks.results.redact import Redaction
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary
from refusal_checks.run import comparability, redo_reasons
from refusal_checks.run.assembly import assemble, pool_settings
from refusal_checks.run.collector import collecting_rarely
from refusal_checks.run.judge_check import Canary, human_rates, provenance
from refusal_checks.run.manifest import effort, engines_ready, facts, finished, manifest
from refusal_checks.run.options.command_line import Options
from refusal_checks.run.phases import Phases
from refusal_checks.run.plan import Pending, Plan, pending
from refusal_checks.run.publisher import Publisher


class Run:
    """Evaluates the benchmarks of the selected gates; publishes the outcomes on its board.

    Args:
        gates: the selected gates; none checks the judge alone.
        board: where outcomes are published; its folder also takes logs and the summary.
        say: shows one line to the user.
        servers: the models' servers; engines that are started for the run where none are given.

    Attributes:
        gates: how many are to be decided.
        store: file of what is done.

    Raises:
        UserError: data, recorded answers, models or endpoints are not what was asked for; nothing
            has been started then.
    """

    def __init__(
        self,
        options: Options,
        gates: Sequence[Gate],
        board: Board,
        say: Callable[[str], None],
        servers: Servers | None = None,
    ) -> None:
        self.options = options
        self.board = board
        self.folder = board.folder
        self.summary = RunSummary()
        self.progress = Progress()
        self.gates = len(gates)
        self._say = say
        self._redaction = Redaction(options.redact)
        self._redaction.require_silent(
            [options.candidate, *(judge.model for judge in options.judges)]
        )
        for line in options.notes:
            self.summary.note(line)
        if any(name.startswith("demo:") for name in options.model_names):
            self.summary.note(
                "demo models are toys: these figures say nothing about any real model"
            )
        engines = servers or Engines(pool_settings(options), self.folder)
        self._parts = assemble(options, gates, engines, say, self.summary.note)
        known = manifest(options, self._parts.plan, self._parts.judges)
        human = human_rates(options, gates, self._parts.judges)
        rules = Rules(options.confidence, options.multiple_testing, options.offenders, human)
        self.store = self._redaction.store(options.store, self.folder, options.fresh)
        self.summary.manifest = known.extended(**provenance(options.trust), store=str(self.store))
        self._store = Store(self.store)
        try:
            before = comparability.find(options, self.summary.manifest, self._store)
        except RefusalChecksError:
            self._store.close()
            raise
        self.progress.tokens = self._generated
        self._canary = Canary(options, self._parts.judges, self._store)
        early = self._stop_early(gates) if options.stop_early else None
        self._decisions = Publisher(
            options, gates, self._parts, rules, before, early, board, self.summary
        )
        self._phases = Phases(
            options,
            self._parts,
            self._store,
            self._canary,
            early,
            self._decisions,
            self.progress,
        )
        self._closed = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the engines that the missing answers and verdicts need, then evaluate in a thread.

        Raises:
            EngineStartError: an engine did not come up; none is left running.
        """
        plan, candidate, judges, _, repeats = self._parts
        todos = [pending(plan, candidate, each, self._store) for each in (judges, *repeats)]
        verdicts = sum(todo.verdicts for todo in todos)
        self._say(
            f"{sum(map(len, plan.values()))} prompts of {', '.join(plan)}: {todos[0].answers} "
            f"answers to generate, {verdicts} verdicts to ask for at most; "
            f"run folder {self.folder}"
        )
        if (todos[0].answers or verdicts) and not self.options.fresh:
            self._say_changes()
        self.board.open(facts(self.summary.manifest))
        if self._canary.why_idle:
            self.board.post_judge(JudgeOutcome(idle=self._canary.why_idle))
        asked = self._canary.pending().judges.union(*(todo.judges for todo in todos))
        models = self._models(todos[0].answers, asked)
        self._place(models)
        known = self.summary.manifest
        self.summary.manifest = effort(known, plan, candidate, todos, models)
        self._start_engines()
        self._thread = threading.Thread(target=self._run, name="evaluation", daemon=True)
        self._thread.start()

    def _say_changes(self) -> None:
        """Say why stored work is done again."""
        parts = self._parts

        def count(plan: Plan) -> Pending:
            return pending(plan, parts.candidate, parts.judges, self._store)

        for line in redo_reasons.changes(self.summary.manifest, parts.plan, self.folder, count):
            self._say(line)

    def _stop_early(self, gates: Sequence[Gate]) -> EarlyStopping:
        """Put the prompts in a random order and watch the gates."""
        seed, plan = self.options.sampling.seed, self._parts.plan
        order = {name: shuffled(prompts, name, seed) for name, prompts in plan.items()}
        self._parts = self._parts._replace(plan=order)
        return EarlyStopping(gates, order, self.options.confidence)

    def _place(self, models: Sequence[Model]) -> None:
        """Choose where the engines run; say it and record it."""
        placement = self._parts.engines.place(models)
        self.summary.manifest = self.summary.manifest.extended(placement=placement.describe())
        if placement.places:
            self._say(f"placement {placement.kind}: {placement.why}")

    def _start_engines(self, turn: int = 0) -> None:
        """Start the engines whose turn it is; returns when they are ready."""
        self.progress.phase, begun = "starting the engines", time.monotonic()
        try:
            self._parts.engines.start(self._say, turn)
        finally:
            self.progress.phase = ""
        known, seconds = self.summary.manifest, time.monotonic() - begun
        self.summary.manifest = engines_ready(known, seconds)

    def _generated(self) -> int:
        """Tokens of all answers and verdicts so far, as the servers report them."""
        found = self._parts.engines.account().get("tokens", {})
        return sum(role["output"] for role in found.values())

    def close(self) -> None:
        """Stop the evaluation and the engines, and write ``summary.json``; does nothing again."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(RuntimeError):  # the loop may have ended by itself
            if self._loop is not None and self._main is not None:
                self._loop.call_soon_threadsafe(self._main.cancel)
        self._parts.engines.close()
        self.join(10)
        if not self.is_alive():
            self._store.close()
        self.summary.manifest = finished(self.summary.manifest, self._parts.engines.account())
        if not (self._is_complete or self.summary.failure):
            self.summary.failure = reason(asyncio.CancelledError())
        try:
            RunFolder(self.folder).write_summary(self._redaction.summary(self.summary))
        except OSError as fault:
            self.summary.note(f"no summary was written: {reason(fault)}")

    def join(self, seconds: float | None = None) -> None:
        """Wait for the end of the evaluation, at most so long."""
        if self._thread is not None:
            self._thread.join(seconds)

    def stop_engines(self) -> None:
        """Stop the engines; the evaluation must have ended."""
        self._parts.engines.stop()

    def fail(self, fault: BaseException) -> None:
        """Publish why outcomes that are still waited for will not come.

        Where not even that can be written the session is interrupted, since the workers of an
        xdist run would wait for ever.
        """
        self.summary.failure = self._redaction.reason(fault)
        try:
            self.board.fail(self.summary.failure)
        except OSError:
            if not self._closed:
                _thread.interrupt_main()

    def is_alive(self) -> bool:
        """Whether outcomes may still come."""
        return self._thread is not None and self._thread.is_alive()

    def _models(self, answers: int, judges: Collection[str]) -> list[Model]:
        """The models that missing answers, and missing verdicts of these judges, need."""
        candidate = [self.options.candidate] if answers else []
        asked = [judge.model for judge in self.options.judges if judge.name in judges]
        return [*candidate, *asked]

    def _run(self) -> None:
        try:
            with collecting_rarely():
                asyncio.run(self._evaluate())
        except BaseException as fault:
            if not self._is_complete:  # it may be stopped as soon as all is known
                self.fail(fault)

    @property
    def _is_complete(self) -> bool:
        """Whether every outcome is known."""
        decided = len(self.summary.verdicts) + len(self.summary.errors)
        return decided == self.gates and bool(self._canary.why_idle or self.summary.judge)

    async def _evaluate(self) -> None:
        self._loop, self._main = asyncio.get_running_loop(), asyncio.current_task()
        if self._closed:  # before there was a loop to tell it to
            raise asyncio.CancelledError
        engines = self._parts.engines
        async with AsyncExitStack() as stack:
            for client in engines.clients:
                await stack.enter_async_context(client)
            begun = time.monotonic()
            try:
                for turn, work in enumerate(self._phases.turns(engines.placement.turns)):
                    if turn:
                        await asyncio.to_thread(self._start_engines, turn)
                    await engines.guard(work, self._restarted)
            finally:
                seconds = round(time.monotonic() - begun, 3)
                self.summary.manifest = self.summary.manifest.extended(evaluation_s=seconds)

    def _restarted(self, line: str) -> None:
        self._say(line)
        self.summary.note(line)
