"""A candidate and judges whose answers a test decides, and an evaluation of them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_checks.core.judgements import Binary, Invalid, Judgement, Label, Reason
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from refusal_checks.io.store import Store
from refusal_checks.judges.judge import Judge
from refusal_checks.models.candidates import Answer
from refusal_checks.run.plan import MissingWork, Plan, Task, missing_work
from refusal_checks.run.stream import PromptStream

PROMPTS = [Prompt.single(f"p{number}", f"request {number}") for number in range(6)]
PLAN = {"first": PROMPTS[:4], "second": PROMPTS[4:]}


class Speaker:
    """A candidate whose answers a test decides; counts what it is asked for."""

    name = "speaker"
    max_tokens: int | None = 10

    def __init__(
        self, samples: int = 2, answers: Mapping[str, Answer] | None = None
    ) -> None:
        self.asked: Counter[str] = Counter()
        self.running = 0
        self.most_running = 0
        self._samples = samples
        self._answers = answers or {}

    def keys(self, prompt: Prompt) -> Sequence[str]:
        return [f"{prompt.id}-{sample}" for sample in range(self._samples)]

    def stored_answers(
        self, prompts: Sequence[Prompt], store: Store
    ) -> Mapping[str, Completion]:
        return store.completions(key for prompt in prompts for key in self.keys(prompt))

    async def answer(self, prompt: Prompt, first: int, count: int) -> Sequence[Answer]:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0.001)
        self.running -= 1
        keys = self.keys(prompt)[first : first + count]
        self.asked.update(keys)
        return [self._answers.get(key, Completion(f"answer {key}")) for key in keys]


Says = Callable[[str], Judgement]
"""What a judge says of a text."""

REFUSES: Says = lambda text: Binary(Label.REFUSAL)  # noqa: E731
COMPLIES: Says = lambda text: Binary(Label.COMPLIANCE)  # noqa: E731
FAILS: Says = lambda text: Invalid(Reason.JUDGE_ERROR, "it broke")  # noqa: E731


class Reader(Judge):
    """A judge that a test decides; counts what it reads."""

    def __init__(
        self,
        identity: str | None = "reader",
        says: Says = REFUSES,
        name: str = "reader",
    ) -> None:
        self.name = name
        self.identity = identity
        self.read: Counter[str] = Counter()
        self._says = says

    async def judge(self, prompt: Prompt, completion: Completion) -> Judgement:
        await asyncio.sleep(0.001)
        self.read[completion.text] += 1
        return self._says(completion.text)


Readers = Reader | tuple[Reader, ...]
READER = frozenset({"reader"})


def panel(readers: Readers) -> tuple[Reader, ...]:
    return readers if isinstance(readers, tuple) else (readers,)


def evaluate(
    speaker: Speaker,
    reader: Readers,
    path: Path,
    in_flight: int = 3,
    plan: Plan = PLAN,
    **options: Any,
) -> dict[str, list[Record]]:
    """The records by benchmark; ``options`` are those of a PromptStream."""
    found: dict[str, list[Record]] = {}

    def finished(name: str, records: Sequence[Record]) -> None:
        assert name not in found
        found[name] = list(records)

    judges = dict.fromkeys(plan, panel(reader))
    with Store(path / "store.sqlite") as store:
        task = Task(plan, speaker, judges, store)
        work = PromptStream(task, in_flight=in_flight, finished=finished, **options)
        asyncio.run(work.run())
    return found


def left(
    speaker: Speaker, reader: Readers, path: Path, plan: Plan = PLAN
) -> MissingWork:
    """What is left to ask for; whose verdicts are stored is told by tests of whole runs."""
    with Store(path / "store.sqlite") as store:
        task = Task(plan, speaker, dict.fromkeys(plan, panel(reader)), store)
        return missing_work(task)._replace(reused=frozenset())


BROKEN: dict[str, Answer] = {
    "p0-0": Invalid(Reason.ENGINE_ERROR, "no answer"),
    "p0-1": Completion(" \n"),
    "p1-0": Completion("cut", "abort"),
    "p1-1": Completion("cut", "length", tokens=4),
    "p2-0": Completion("long enough", "length", tokens=10),
    "p3-0": Completion("", reasoning="unclosed"),
}
