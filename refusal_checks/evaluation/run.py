"""Runs: engines start, everything is evaluated, the summary is written; one run after the other."""

from __future__ import annotations

import _thread
import asyncio
import gc
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict
from datetime import UTC, datetime

from refusal_checks.core.errors import EngineStartError, reason
from refusal_checks.engines.servers import Work
from refusal_checks.evaluation.aio import together
from refusal_checks.evaluation.assembly import prompts_of
from refusal_checks.evaluation.forecast import attempts, changes, forecast
from refusal_checks.evaluation.manifest import effort, facts
from refusal_checks.evaluation.phases import Phases
from refusal_checks.evaluation.planning import Pending
from refusal_checks.evaluation.prepare import Prepared
from refusal_checks.gates import power
from refusal_checks.models.spec import Model
from refusal_checks.results.manifest import EnginesUsed
from refusal_checks.results.outbox import JudgeOutcome
from refusal_checks.results.progress import Progress, Underway
from refusal_checks.results.run_folder import RunFolder

_RARELY = (20_000, 20, 100)
"""Thresholds of Python's garbage collector during runs. They keep hundreds of thousands of values
without cycles; looking for cycles as often as usual takes a third of an evaluation's time."""

PATIENT = 10.0
"""Seconds that an evaluation may take to end once it is told to."""


class Series:
    """Runs in turn: a run's engines stop before the next run works, or go on for it."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = tuple(runs)
        self._thread = threading.Thread(target=self._work, name="evaluation", daemon=True)
        self._first_started: Future[None] = Future()
        self._closed = False
        self._turn = 0

    @property
    def current(self) -> tuple[str, Progress]:
        """The candidate whose turn it is (empty if there is only one), and its progress."""
        run, count = self.runs[self._turn], len(self.runs)
        title = f"{run.candidate} ({self._turn + 1} of {count})" if count > 1 else ""
        return title, run.progress

    def start(self) -> None:
        """Start the runs; return once the first one's engines are ready.

        If the engine of one of several candidates does not start, its board says so, and the next
        candidate follows. What else keeps the first run from starting is raised.
        """
        self._thread.start()
        self._first_started.result()

    def _work(self) -> None:
        usual = gc.get_threshold()
        gc.set_threshold(*_RARELY)
        try:
            before: Run | None = None
            for turn, run in enumerate(self.runs):
                if self._closed:
                    break
                self._turn = turn
                self._do(run, before)
                run.finish(keep_engines=run is not self.runs[-1] and not self._closed)
                before = run
        finally:
            gc.set_threshold(*usual)

    def _do(self, run: Run, before: Run | None) -> None:
        """Do a run; if its engines do not start, end the session or publish why."""
        try:
            run.open(before)
            run.evaluate(self._go_on)
        except BaseException as fault:
            if before:
                before.stop_engines()  # this run may not have taken them over
            run.stop_engines()  # they may load already
            is_first = not self._first_started.done()
            if is_first and (len(self.runs) == 1 or not isinstance(fault, EngineStartError)):
                self._closed = True
                self._first_started.set_exception(fault)
            elif not self._closed:  # else it is closing that kept it from starting
                run.fail(fault)
        self._say_started()

    def _go_on(self) -> None:
        """Do what waited for a run's engines: tests go on, and the next engines may load."""
        self._say_started()
        run, *others = self.runs[self._turn :]
        if others:
            others[0].load_early(run)

    def _say_started(self) -> None:
        if not self._first_started.done():
            self._first_started.set_result(None)

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def close(self, patience: float = PATIENT) -> None:
        """End all runs, within ``patience`` seconds, and write their summaries."""
        self._closed = True
        for run in reversed(self.runs):  # so that no engine loads early while others stop
            run.cancel()
        if self._thread.ident is not None:
            self._thread.join(timeout=patience)
        for run in self.runs:
            run.finish()


class Run:
    """Evaluates the benchmarks of the selected gates, and publishes the outcomes on its board.

    One thread calls ``open``, ``evaluate`` and ``finish``; any other may ``cancel``, or have it
    ``load_early`` before they are called.
    """

    def __init__(self, prepared: Prepared) -> None:
        self._run = prepared
        self.options = prepared.options
        self.summary = prepared.summary
        self.folder = prepared.board.folder
        self.store = prepared.store.path
        self.candidate = prepared.options.answering.model.name
        self.gates = len(prepared.gates)
        self.progress = Progress(tokens=self._generated)
        self._engines = prepared.parts.engines
        self._cancelled = self._finished = self._is_open = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._not_started: BaseException | None = None
        self._begun: float | None = None

    @property
    def has_its_folder(self) -> bool:
        return self._run.board.is_there or not self._is_open

    @property
    def underway(self) -> Underway:
        run = self._run
        return Underway(
            folder=self.folder,
            summary=self.summary,
            progress=self.progress,
            planned={name: len(prompts) for name, prompts in run.parts.plan.items()},
            gates=tuple(run.gates),
            level=run.rules.level,
            redaction=run.redaction,
            has_ended=lambda: self._finished,
        )

    def open(self, before: Run | None = None) -> None:
        """Open the run's folder, and place the engines that missing answers and verdicts need."""
        run, parts = self._run, self._run.parts
        todo = run.pending(parts.plan)
        answers, verdicts = todo.answers, todo.verdicts
        if changed := run.store.changed:
            self.summary.note(
                f"the store {self.store}: {changed} of its rows are not as they were written and "
                "were asked for again: damaged, or edited by hand"
            )
        run.say(
            f"{sum(map(len, parts.plan.values()))} prompts of {', '.join(parts.plan)}: {answers} "
            f"answers to generate, {verdicts} verdicts to ask for at most; "
            f"run folder {self.folder}"
        )
        named = self.options.benchmarks
        sizes = {}
        for gate in run.gates:
            prompts = prompts_of(named[gate.benchmark], parts.plan)
            for each in gate.of_each_group(prompts):
                sizes[each] = len({prompt.id for prompt in prompts if each.looks_at(prompt)})
        for line in power.head(sizes, run.rules.level):
            run.say(line)
        ids, root = [gate.id for gate in run.gates], self.folder.parent
        tried = attempts(self.summary.manifest, ids, root, asks=bool(answers))
        self.summary.manifest = self.summary.manifest.extended(attempts=tried)
        if expected := forecast(self.summary.manifest, answers, verdicts, root):
            run.say(expected)
        if (answers or verdicts) and not self.options.fresh:
            manifest = self.summary.manifest
            for line in changes(manifest, parts.plan, self.folder, run.pending):
                run.say(line)
        models = self._needed([todo, *run.pending_checks()])
        placement = self._engines.place(models, before._engines if before else None)
        if placement.places:
            run.say(f"placement {placement.kind}: {placement.why}")
        placed = self.summary.manifest.extended(placement=asdict(placement))
        self.summary.manifest = effort(placed, parts, todo, models, run.store, run.verified)
        run.board.open(facts(self.summary.manifest))
        self._is_open = True
        if run.canary.why_idle:
            run.board.post_judge(JudgeOutcome(idle=run.canary.why_idle))

    def load_early(self, before: Run) -> None:
        """Begin to load what this run needs beside one that still goes on, if there is room.

        What keeps it from loading is met again, and said, when its turn comes.
        """
        run = self._run

        def needed() -> list[Model]:
            return self._needed([run.pending(run.parts.plan), *run.pending_checks()])

        with suppress(Exception):
            self._engines.load_early(needed, before._engines, run.say)

    def _needed(self, todos: list[Pending]) -> list[Model]:
        asks = todos[0].answers or any(todo.may_weigh for todo in todos)
        candidate = [self.options.answering.model] if asks else []
        asked = frozenset[str]().union(*(todo.judges for todo in todos))
        judges = self.options.judging.judges
        return [*candidate, *(judge.model for judge in judges if judge.name in asked)]

    async def _start_engines(self, turn: int = 0) -> None:
        phase, begun = "starting the engines", time.monotonic()
        self.progress.phase = phase
        try:
            await asyncio.to_thread(self._engines.start, self._run.say, turn)
        finally:
            if self.progress.phase == phase:  # else the judge is being checked already
                self.progress.phase = ""
        used = self.summary.manifest.engines or EnginesUsed()
        ready = (*used.ready_s, round(time.monotonic() - begun, 1))
        used = used.model_copy(update={"ready_s": ready})
        self.summary.manifest = self.summary.manifest.extended(engines=used)

    def _generated(self) -> int:
        tokens = self._engines.account().get("tokens", {})
        return sum(role["output"] for role in tokens.values())

    def evaluate(self, started: Callable[[], None] = lambda: None) -> None:
        """Start the engines, evaluate and decide everything; what goes wrong then is published.

        ``started`` is called, once, in a thread of its own when the engines are ready; answers may
        be there already. If an engine did not come up, that is raised and none is left running.
        """
        try:
            asyncio.run(self._evaluate(started))
        except BaseException as fault:
            if self._not_started:
                self._engines.close()
                raise self._not_started from None
            if not self._run.is_complete:  # it may be cancelled as soon as all is known
                self.fail(fault)

    async def _evaluate(self, started: Callable[[], None]) -> None:
        self._loop, self._main = asyncio.get_running_loop(), asyncio.current_task()
        if self._cancelled:  # before there was a loop to cancel it in
            raise asyncio.CancelledError
        phases = Phases(self._run, self.progress)
        async with AsyncExitStack() as stack:
            for client in self._engines.clients:
                await stack.enter_async_context(client)
            first, *others = phases.turns(self._engines.placement.turns)
            try:
                await together(self._start_first(started), self._do_first(first))
                for turn, work in enumerate(others, 1):
                    await self._start_engines(turn)
                    await self._engines.guard(work, self._restarted)
            finally:
                if self._begun is not None:
                    seconds = round(time.monotonic() - self._begun, 3)
                    self.summary.manifest = self.summary.manifest.extended(evaluation_s=seconds)

    async def _start_first(self, started: Callable[[], None]) -> None:
        """Start the engines of the first turn, while work waits for those that it needs."""
        try:
            await self._start_engines()
        except asyncio.CancelledError:
            self._engines.close()  # else the thread that starts them goes on to wait
            raise
        except Exception as fault:
            self._not_started = fault
            raise
        await asyncio.to_thread(started)  # it may take a while

    async def _do_first(self, work: Work) -> None:
        await self._engines.ready([self.options.answering.model])
        self._begun = time.monotonic()
        await self._engines.guard(work, self._restarted)

    def _restarted(self, line: str) -> None:
        self._run.say(line)
        self.summary.note(line)

    def fail(self, fault: BaseException) -> None:
        """Publish the failure so that waiting tests stop waiting.

        If not even that can be written, interrupt the session: the workers would wait forever.
        """
        self.summary.failure = self._run.redaction.reason(fault)
        try:
            self._run.board.fail(self.summary.failure)
        except OSError:
            if not self._cancelled:
                _thread.interrupt_main()

    def cancel(self) -> None:
        """Stop the evaluation and the engines, from another thread; none starts any more."""
        self._cancelled = True
        with suppress(RuntimeError):  # the loop may have ended by itself
            if self._loop is not None and self._main is not None:
                self._loop.call_soon_threadsafe(self._main.cancel)
        self._engines.close()

    def stop_engines(self) -> None:
        """Stop those that load early, or that ``finish`` has kept."""
        self._engines.close()

    def finish(self, *, keep_engines: bool = False) -> None:
        """Stop the engines, or keep them for the next run, and write ``summary.json``, once."""
        if self._finished:
            return
        self._finished = True
        if not keep_engines:
            self._engines.close()
        self._run.store.close()
        account, now = self._engines.account(), datetime.now(UTC).isoformat(timespec="seconds")
        manifest = self.summary.manifest.extended(**account, finished=now)
        self.summary.manifest = self._run.redaction.manifest(manifest)
        if not (self._run.is_complete or self.summary.failure):
            self.summary.failure = reason(asyncio.CancelledError())
        self._write_summary()

    def leave_open(self, unexplained: Sequence[str]) -> None:
        """Mark a finished run as not decided, because of failures that no verdict explains."""
        self.summary.unexplained += unexplained
        self._write_summary()

    def _write_summary(self) -> None:
        try:
            RunFolder(self.folder).write_summary(self._run.redaction.summary(self.summary))
        except OSError as fault:
            self.summary.note(f"no summary was written: {reason(fault)}")
