"""Judge recorded answers without a candidate, to make calibrations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from refusal_checks.benchmarks import discover
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.sampling import Sampling
from refusal_checks.core.settings import Limits
from refusal_checks.core.store import MEMORY, Store
from refusal_checks.core.verdicts import Judgement
from refusal_checks.engines.pool import Engines, PoolSettings
from refusal_checks.evaluation.assembly import convert, judge_panels, require_cascade
from refusal_checks.evaluation.config import EngineConfig, JudgeConfig
from refusal_checks.evaluation.evidence import identify, identify_panel
from refusal_checks.evaluation.planning import (
    Plan,
    Task,
    pending,
    prompts_at_once,
)
from refusal_checks.evaluation.stream import Evaluation
from refusal_checks.evaluation.verification import adopt, with_reasoned
from refusal_checks.judges.judge import Judge
from refusal_checks.judges.panel import JudgingMethod
from refusal_checks.judges.trust.label_files import LabelFile, LabelledAnswer, Scale
from refusal_checks.judges.trust.measured import MeasuredJudge, judged
from refusal_checks.models.names import Attached, Replay
from refusal_checks.models.recordings.columns import ReplayOptions
from refusal_checks.models.recordings.recording import Recording, ReplayCandidate
from refusal_checks.results.manifest import left_out


def measure(
    files: Sequence[LabelFile],
    judging: JudgeConfig,
    limits: Limits,
    engine: EngineConfig,
    scale: Scale,
    store: Path,
    folder: Path,
    say: Callable[[str], None],
) -> list[MeasuredJudge]:
    """Measure judges against human labels, each alone and, if several, also together."""
    labelled: list[LabelledAnswer] = []
    plan: dict[str, Sequence[Prompt]] = {}
    for file in files:
        labelled += file.answers
        plan[file.candidate] = [answer.as_prompt for answer in file.answers]
    answers = {answer.as_prompt.id: (Completion(answer.answer),) for answer in labelled}
    recorded = RecordedJudging(
        judging, limits, engine, scale.name, plan, answers, folder, say
    )
    by_panel = recorded.alone_and_together(store)
    panel = recorded.panel
    reading = ReplayOptions()
    identities = [identify(judge, reading) for judge in panel]
    if len(panel) > 1:
        identities.append(identify_panel(panel, reading))
    measured = []
    for identity, by_file in zip(identities, by_panel, strict=True):
        judgements: list[Judgement] = []
        for file in files:
            judgements += [record.judgement for record in by_file[file.candidate]]
        results = map(partial(judged, scale), labelled, judgements)
        measured.append(MeasuredJudge(identity, tuple(results)))
    return measured


class RecordedJudging:
    """Runs judges on engines of their own to read recorded answers.

    Args:
        kind: name of the kind of judge.
        answers: recorded answers by prompt id.
    """

    def __init__(
        self,
        judging: JudgeConfig,
        limits: Limits,
        engine: EngineConfig,
        kind: str,
        plan: Plan,
        answers: Mapping[str, tuple[Completion, ...]],
        folder: Path,
        say: Callable[[str], None],
    ) -> None:
        self._judging = judging
        self._in_flight = prompts_at_once(limits, judging.models)
        self._plan = plan
        name = "recorded answers"
        self._candidate = ReplayCandidate(name, Recording(Path(), answers, {}, {}))
        self._say = say
        convert(judging.models, say)
        settings = PoolSettings(
            Replay(name, Path()),
            judging.models,
            limits,
            Sampling(),
            judging.sampling,
            start_timeout=engine.start_timeout,
            paces=engine.paces,
        )
        self._engines = Engines(settings, folder)
        self.panel = self._judges(kind)
        servers = self._engines.account()["capabilities"].get("judge", {})
        for line in left_out("judge", judging.sampling.model_dump(), servers):
            say(line)

    def _judges(self, kind: str) -> tuple[Judge, ...]:
        guides = {
            benchmark.judge: benchmark.category_guide
            for benchmark in discover().values()
        }
        method = JudgingMethod(kind, category_guide=guides.get(kind))
        ways = dict.fromkeys(self._plan, method)
        judges = judge_panels(
            self._judging, ways, self._engines, self._say, is_recorded=True
        )
        require_cascade(self._judging.cascade, ways, judges)
        return next(iter(judges.values()))  # all recordings are judged in the same way

    def alone_and_together(self, path: Path) -> list[dict[str, Sequence[Record]]]:
        """Have each judge read all answers; if there are several, also all of them together.

        Stored verdicts of attached servers are not used: they measure what the URL served then.
        """
        models = self._judging.models
        is_attached = any(isinstance(model, Attached) for model in models)
        panels = [(judge,) for judge in self.panel]
        with Store(MEMORY if is_attached else path) as store:
            alone = [self._task(panel, store) for panel in panels]
            todos = [pending(task) for task in alone]
            names = frozenset[str]().union(*(todo.judges for todo in todos))
            asked = [
                judge.model for judge in self._judging.judges if judge.name in names
            ]
            verdicts = sum(todo.verdicts for todo in todos)
            self._say(f"{verdicts} verdicts to ask for at most")
            tasks = alone
            if len(self.panel) > 1:
                # Last, when the verdicts that it needs are stored.
                tasks = [*alone, self._task(self.panel, store)]
            try:
                self._engines.place(asked)
                self._engines.start(self._say)
                return asyncio.run(self._evaluate(tasks))
            finally:
                self._engines.stop()

    def _task(self, panel: tuple[Judge, ...], store: Store) -> Task:
        judges = dict.fromkeys(self._plan, panel)
        adopt(with_reasoned(judges), None, store)
        return Task(self._plan, self._candidate, judges, store)

    async def _evaluate(
        self, tasks: Sequence[Task]
    ) -> list[dict[str, Sequence[Record]]]:
        async with AsyncExitStack() as stack:
            for client in self._engines.clients:
                await stack.enter_async_context(client)
            return [await self._round(task) for task in tasks]

    async def _round(self, task: Task) -> dict[str, Sequence[Record]]:
        records: dict[str, Sequence[Record]] = {}

        async def work() -> None:
            finished = records.__setitem__
            await Evaluation(task, in_flight=self._in_flight, finished=finished).run()

        await self._engines.guard(work, self._say)
        return {name: records[name] for name in self._plan}
