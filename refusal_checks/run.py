"""One run, from the selected gates to their verdicts: starts engines, evaluates, decides."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime

from refusal_checks import baseline, earlier
from refusal_checks.assembly import assemble
from refusal_checks.board import Board, JudgeOutcome, Outcome, write_text
from refusal_checks.early import EarlyStopping, shuffled
from refusal_checks.errors import EvaluationError, RefusalChecksError
from refusal_checks.evaluate import Evaluation, Judges, Plan, pending
from refusal_checks.finding import Rules, expected_breaches, select
from refusal_checks.gate import Verdict, decide_all
from refusal_checks.identity import Model
from refusal_checks.judge_check import Canary, human_rates, provenance
from refusal_checks.judge_noise import noise
from refusal_checks.manifest import effort, facts, manifest
from refusal_checks.metrics import METRICS, score_all
from refusal_checks.options import Options
from refusal_checks.progress import Progress
from refusal_checks.records import Record
from refusal_checks.redact import Redaction
from refusal_checks.report import disagreements
from refusal_checks.report.balance import balance
from refusal_checks.report.summary import RunSummary, summarise
from refusal_checks.run_folder import RunFolder
from refusal_checks.store import Store
from refusal_checks.thresholds import Gate


class Run:
    """Evaluates the benchmarks of the selected gates; publishes the outcomes on its board.

    Args:
        gates: the selected gates; none checks the judge alone.
        board: where outcomes are published; its folder also takes logs and the summary.
        say: shows one line to the user.

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
    ) -> None:
        self.options = options
        self.board = board
        self.folder = board.folder
        self.summary = RunSummary()
        self.progress = Progress()
        self._gates = gates
        self._say = say
        if any(name.startswith("demo:") for name in options.model_names):
            self._note("demo models are toys: these figures say nothing about any real model")
        self._parts = assemble(options, gates, self.folder, say, self._note)
        self.summary.manifest = manifest(options, self._parts.plan, self._parts.judges)
        human = human_rates(options, gates, self._parts.judges)
        self._rules = Rules(options.confidence, options.correction, options.offenders, human)
        self.summary.manifest |= provenance(options.trust)
        self._redaction = Redaction(options.redact)
        self._store = Store(self._redaction.store(options.store, self.folder, options.fresh))
        if self._store.warning:
            self._note(self._store.warning)
        try:
            self._earlier = earlier.find(options, self.summary.manifest, self._store)
        except RefusalChecksError:
            self._store.close()
            raise
        self._repeats: dict[str, list[Sequence[Record]]] = {}
        self._canary = Canary(options, self._parts.judges, self._store)
        self._early: EarlyStopping | None = None
        if options.stop_early:
            self._stop_early()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the engines that the missing answers and verdicts need, then evaluate in a thread.

        Raises:
            EngineStartError: an engine did not come up; none is left running.
        """
        plan, candidate, judges, engines, repeats = self._parts
        todos = [pending(plan, candidate, each, self._store) for each in (judges, *repeats)]
        verdicts = sum(todo.verdicts for todo in todos)
        self._say(
            f"{sum(map(len, plan.values()))} prompts of {', '.join(plan)}: {todos[0].answers} "
            f"answers to generate, {verdicts} verdicts to ask for at most; "
            f"run folder {self.folder}"
        )
        self.board.open(facts(self.summary.manifest))
        if self._canary.why_idle:
            self.board.post_judge(JudgeOutcome(idle=self._canary.why_idle))
        asked = self._canary.pending().judges.union(*(todo.judges for todo in todos))
        models = self._models(todos[0].answers, asked)
        begun = time.monotonic()
        engines.start(models, self._say)
        self.summary.manifest |= effort(plan, candidate, todos, models, time.monotonic() - begun)
        self._thread = threading.Thread(target=self._run, name="evaluation", daemon=True)
        self._thread.start()

    def _stop_early(self) -> None:
        """Put the prompts in a random order and watch the gates."""
        seed, plan = self.options.sampling.seed, self._parts.plan
        order = {name: shuffled(prompts, name, seed) for name, prompts in plan.items()}
        self._parts = self._parts._replace(plan=order)
        self._early = EarlyStopping(self._gates, order, self.options.confidence)

    def close(self) -> None:
        """Stop the evaluation and the engines, and write ``summary.json``; does nothing again."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(RuntimeError):  # the loop may have ended by itself
            if self._loop is not None and self._main is not None:
                self._loop.call_soon_threadsafe(self._main.cancel)
        if self._thread is not None:
            self._thread.join(timeout=10)
        self._parts.engines.stop()
        if not self.is_alive():
            self._store.close()
        self.summary.manifest["finished"] = datetime.now(UTC).isoformat(timespec="seconds")
        RunFolder(self.folder).write_summary(self._redaction.summary(self.summary))

    def join(self) -> None:
        """Wait for the end of the evaluation."""
        if self._thread is not None:
            self._thread.join()

    def stop_engines(self) -> None:
        """Stop the engines; the evaluation must have ended."""
        self._parts.engines.stop()

    def fail(self, fault: BaseException) -> None:
        """Publish why outcomes that are still waited for will not come."""
        self.summary.failure = self._redaction.reason(fault)
        self.board.fail(self.summary.failure)

    def is_alive(self) -> bool:
        """Whether outcomes may still come."""
        return self._thread is not None and self._thread.is_alive()

    def _models(self, answers: int, judges: Collection[str]) -> list[Model]:
        """The models that missing answers, and missing verdicts of these judges, need."""
        candidate = [self.options.candidate] if answers else []
        asked = [judge.model for judge in self.options.judges if judge.name in judges]
        return [*candidate, *asked]

    def _note(self, line: str) -> None:
        if line not in self.summary.notes:
            self.summary.notes.append(line)

    def _run(self) -> None:
        try:
            asyncio.run(self._evaluate())
        except BaseException as fault:
            self.fail(fault)

    async def _evaluate(self) -> None:
        self._loop, self._main = asyncio.get_running_loop(), asyncio.current_task()
        async with AsyncExitStack() as stack:
            for client in self._parts.engines.clients:
                await stack.enter_async_context(client)
            begun = time.monotonic()
            try:
                await self._parts.engines.guard(self._evaluate_trusted())
            finally:
                self.summary.manifest["evaluation_s"] = round(time.monotonic() - begun, 3)

    async def _evaluate_trusted(self) -> None:
        """Check the judge, then evaluate all that may be decided."""
        plan, judges = self._parts.plan, self._parts.judges
        distrust = await self._distrust()
        undecided = {name for name in plan if distrust and self._is_refusal(name)}
        for name in undecided:
            fault = EvaluationError(distrust)
            gates = [gate.id for gate in self._gates if gate.benchmark == name]
            self.board.post(name, {id: self._take(id, fault) for id in gates})
        decided = {name: plan[name] for name in plan if name not in undecided}
        for again in self._parts.repeats:
            await self._evaluation(decided, again, self._repeated).run()
        await self._evaluation(decided, judges, self._finished).run()

    def _evaluation(
        self, plan: Plan, judges: Judges, finished: Callable[[str, Sequence[Record]], None]
    ) -> Evaluation:
        return Evaluation(
            plan,
            self._parts.candidate,
            judges,
            self._store,
            in_flight=self.options.limits.in_flight,
            finished=finished,
            enough=self._early.enough if self._early else None,
            progress=self.progress,
        )

    def _repeated(self, benchmark: str, records: Sequence[Record]) -> None:
        """Keep what the judges said the other times."""
        self._repeats.setdefault(benchmark, []).append(records)

    def _with_noise(
        self, found: Verdict | EvaluationError, records: Sequence[Record]
    ) -> Verdict | EvaluationError:
        """A verdict with what the repeats of its benchmark's verdicts say."""
        if isinstance(found, EvaluationError) or not self._parts.repeats:
            return found
        gate, times = found.gate, [records, *self._repeats.get(found.gate.benchmark, ())]
        seen = [select(gate, each) for each in times]
        metric, level = METRICS[gate.metric], self._rules.level
        return replace(found, noise=noise(metric, seen, found.estimate, level))

    async def _distrust(self) -> str:
        """Why the judge's verdicts decide nothing; empty where they do."""
        if self._canary.why_idle:
            return ""
        check = self.summary.judge = self._redaction.check(await self._canary.run())
        self.board.post_judge(JudgeOutcome(check))
        if check.is_trusted or self.options.trust.allow_untrusted:
            return ""
        return check.distrust

    def _is_refusal(self, benchmark: str) -> bool:
        return self.options.benchmarks[benchmark].judge == "refusal"

    def _finished(self, benchmark: str, records: Sequence[Record]) -> None:
        """Decide the gates of a benchmark that is complete."""
        records = self._redaction.judged(records)
        shown = self._redaction.records(records)
        scores, prompts = score_all(records), self._parts.plan[benchmark]
        known = self.options.benchmarks[benchmark]
        kind = known.kind.value
        summary = summarise(records, self._rules.level, scores, len(prompts), kind)
        self.summary.benchmarks[benchmark] = summary
        RunFolder(self.folder).write_records(benchmark, shown)
        if self.options.trust.labels:
            self._note(self.options.trust.labels.found(benchmark, records))
        if len(self._parts.judges[benchmark]) > 1:
            disagreements.append(self.folder, benchmark, shown)
        self.summary.balance = balance(
            [(found.kind, found.figures) for found in self.summary.benchmarks.values()],
            self._rules.level,
        )
        keys = {prompt.id: self._parts.candidate.keys(prompt) for prompt in prompts}
        scored = earlier.scores(
            self.summary.manifest,
            known,
            summary.figures,
            baseline.score_prompts(records, scores, keys),
        )
        path = self.folder / baseline.FOLDER / f"{benchmark}.json"
        write_text(path, baseline.dump(scored))
        gates = [gate for gate in self._gates if gate.benchmark == benchmark]
        stopped = self._early and summary.prompts < summary.planned
        found = decide_all(
            gates,
            records,
            self._rules,
            self._earlier.get(benchmark),
            self._early.estimate if self._early and stopped else None,
        )
        noted = {id: self._with_noise(verdict, records) for id, verdict in found.items()}
        self.board.post(benchmark, {id: self._take(id, verdict) for id, verdict in noted.items()})
        self._order()

    def _take(self, id: str, found: Verdict | RefusalChecksError) -> Outcome:
        """Take a gate's verdict, or why there is none, into the summary."""
        if isinstance(found, RefusalChecksError):
            self.summary.errors[id] = str(found)
            return Outcome(error=str(found))
        self.summary.verdicts[id] = shown = self._redaction.verdict(found)
        return Outcome(shown)

    def _order(self) -> None:
        """Benchmarks end in any order; the summary lists gates in the threshold files' order."""
        verdicts = self.summary.verdicts
        gates = [gate for gate in self._gates if gate.id in verdicts]
        self.summary.verdicts = {gate.id: verdicts[gate.id] for gate in gates}
        breached, failing = expected_breaches(gates, self._rules.level)
        self.summary.expected_breaches, self.summary.expected_failures = breached, failing
