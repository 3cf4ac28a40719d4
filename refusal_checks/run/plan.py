"""What a run has to do: its benchmarks, its tasks, and what is not stored yet."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from refusal_checks.benchmarks import Benchmark
from refusal_checks.core.judgements import FILTERED, Judgement, Valid
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, find_fault
from refusal_checks.core.settings import Limits
from refusal_checks.core.special_tokens import break_up
from refusal_checks.engines import vllm
from refusal_checks.gates.gate import Gate, measured_id
from refusal_checks.io.store import Store, content_key
from refusal_checks.judges import kind_of
from refusal_checks.judges.base64_text import decode_exchange
from refusal_checks.judges.judge import Judge, JudgeKind
from refusal_checks.models.candidates import Candidate
from refusal_checks.models.model_names import CandidateModel, JudgeModel, Served
from refusal_checks.run.panels import method_of
from refusal_checks.trust.minimums import JudgeCheck
from refusal_checks.trust.validation_sets import has_check

Plan = Mapping[str, Sequence[Prompt]]
"""The prompts to evaluate, by benchmark."""

Judges = Mapping[str, tuple[Judge, ...]]
"""The judges of each benchmark; several decide by majority, and no two have the same name."""


@dataclass(frozen=True)
class Task:
    """Prompts to answer and judge through the store.

    Attributes:
        withheld: the verdict on an answer that a server's content filter withheld, by benchmark;
        where there is none, such an answer is invalid.
    """

    plan: Plan
    candidate: Candidate
    judges: Judges
    store: Store
    withheld: Mapping[str, Valid] = field(default_factory=dict)

    def without_judging(self, benchmark: str, answer: Completion) -> Judgement | None:
        """The verdict on an answer that needs no judge, or why it has none; None to judge it."""
        verdict = self.withheld.get(benchmark)
        if verdict and answer.finish_reason == FILTERED:
            if answer.is_withheld:
                return verdict
            # Users see what came before the filter cut in.
            answer = replace(answer, finish_reason="stop")
        return find_fault(answer, self.candidate.max_tokens)


@dataclass(frozen=True)
class SelectedBenchmark:
    """A benchmark of a run, its prompts, its judges, and the gates on it."""

    definition: Benchmark
    prompts: Sequence[Prompt]
    judges: tuple[Judge, ...]
    gates: tuple[Gate, ...]

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def ids(self) -> tuple[str, ...]:
        """What it decides: its gates, or its measurement if it has none."""
        return tuple(gate.id for gate in self.gates) or (measured_id(self.name),)

    @property
    def kind(self) -> JudgeKind:
        return kind_of(self.definition)

    @property
    def size(self) -> int:
        """Number of prompts."""
        return len(self.prompts)

    def check(self, of_all: JudgeCheck | None) -> JudgeCheck | None:
        """The check of this benchmark's judges of refusal."""
        if of_all is None or not has_check(self.kind):
            return None
        return of_all.of(method_of(self.kind))


def selected_benchmarks(
    gates: Sequence[Gate],
    catalogue: Mapping[str, Benchmark],
    plan: Plan,
    judges: Judges,
) -> dict[str, SelectedBenchmark]:
    """All benchmarks that a run evaluates, by name."""
    return {
        name: SelectedBenchmark(
            definition=catalogue[name],
            prompts=plan[name],
            judges=judges[name],
            gates=tuple(gate for gate in gates if gate.benchmark == name),
        )
        for name in plan
    }


class MissingWork(NamedTuple):
    """Work that the store lacks. Equal prompts count once, even across benchmarks.

    Attributes:
        verdicts: an upper bound, since equal answers are judged once.
        judges: names of the judges that may be asked.
        reused: names of the judges of which verdicts are stored.
    """

    answers: int
    verdicts: int
    judges: frozenset[str] = frozenset()
    reused: frozenset[str] = frozenset()


def missing_work(task: Task) -> MissingWork:
    """Count the work that is left to do."""
    missing: set[str] = set()
    needed: dict[Hashable, Judge] = {}
    for name, prompts in task.plan.items():
        stored = task.candidate.stored_answers(prompts, task.store)
        asking = [judge for judge in task.judges[name] if judge.identity is not None]
        for prompt in prompts:
            for key in task.candidate.keys(prompt):
                answer = stored.get(key)
                if answer is None:
                    missing.add(key)
                    # No verdict has a key yet: its judge and the answer's key stand for it.
                    needed |= {(judge.identity, key): judge for judge in asking}
                elif task.without_judging(name, answer) is None:
                    shown, read = decode_exchange(prompt, answer)
                    for judge in asking:
                        if judge.judge_offline(shown, read) is None:
                            needed[verdict_key(judge, shown, read.text)] = judge

    # In one query: a large benchmark has tens of thousands of verdicts.
    in_store = task.store.judged_keys(key for key in needed if isinstance(key, str))
    unread = [judge for key, judge in needed.items() if key not in in_store]
    return MissingWork(
        answers=len(missing),
        verdicts=sum(judge.samples for judge in unread),
        judges=frozenset(judge.name for judge in unread),
        reused=frozenset(needed[key].name for key in in_store),
    )


def verdict_key(judge: Judge, prompt: Prompt, answer: str) -> str:
    """Return the content key of a verdict: equal answers to equal prompts are judged once.

    Prompt and answer are as the judge sees them. If special tokens are broken up for it, the
    changed text is part of the key. A verdict on a multiple-choice answer says whether
    it is right, so the key includes the answer key.
    """
    texts = prompt.transcript, answer
    shown = tuple(map(break_up, texts))
    changes = shown if shown != texts else ()
    key = [list(prompt.options), prompt.reference] if prompt.options else []
    judged_by: object = judge.identity
    if judge.generation:
        judged_by = [judge.identity, judge.generation]
    return content_key(judged_by, prompt.turns, answer, *changes, *key)


LEAST = 64
"""How many prompts run at once if the engine's capacity is unknown, as on attached servers."""


def prompts_at_once(
    limits: Limits,
    models: Iterable[CandidateModel | JudgeModel],
    samples: int = 1,
) -> int:
    """Number of prompts to answer or judge concurrently: enough to keep the engines busy.

    Twice as many answers as the engines run sequences: a prompt waits for its slowest answer, so on
    average half of its answers are running.
    """
    if limits.in_flight is not None:
        return limits.in_flight
    widest = 0
    for model in models:
        if isinstance(model, Served):
            copies = vllm.read_parallelism(model.args).copies
            widest = max(widest, vllm.max_sequences(model.args) * copies)
    return max(LEAST, math.ceil(2 * widest / samples))
