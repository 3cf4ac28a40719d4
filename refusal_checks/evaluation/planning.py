"""What a run has to do: the prompts and judges of a task, and what the store does not hold yet."""

from __future__ import annotations

import math
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from refusal_checks.benchmarks.attacks import as_judged
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, unusable
from refusal_checks.core.settings import Limits
from refusal_checks.core.store import Store, content_key
from refusal_checks.core.verdicts import Judgement
from refusal_checks.engines import kinds
from refusal_checks.judges import cascade
from refusal_checks.judges.judge import Judge
from refusal_checks.metrics.refusal import weights_decide
from refusal_checks.models.candidates import Candidate
from refusal_checks.models.names import CandidateModel, JudgeModel, Served

Plan = Mapping[str, Sequence[Prompt]]
"""The prompts to evaluate, by benchmark."""

Judges = Mapping[str, tuple[Judge, ...]]
"""The judges of each benchmark; several decide by majority, and no two have the same name."""


@dataclass(frozen=True)
class Task:
    """Prompts, perhaps a part of a whole plan, to answer and judge through the store.

    With ``weighs_all``, answers are weighed whatever their verdicts, which others may replace.
    """

    plan: Plan
    candidate: Candidate
    judges: Judges
    store: Store
    whole: Plan | None = None
    weighs_all: bool = False


def second_judge_sample(
    judges: Sequence[Judge], benchmark: str, prompts: Sequence[Prompt]
) -> frozenset[str]:
    """The prompts whose answers the second judge of a cascade reads in any case, by id."""
    formed = cascade.of(judges)
    if formed is None:
        return frozenset()
    return formed.drawn(benchmark, [prompt.id for prompt in prompts])


class Pending(NamedTuple):
    """What the store does not hold yet; equal prompts count once, even those of two benchmarks.

    Verdicts are the most that may be asked for, since equal answers are judged once.
    ``may_weigh`` is True if the candidate may have to weigh stored answers.
    """

    answers: int
    verdicts: int
    judges: frozenset[str] = frozenset()
    may_weigh: bool = False


_Shown = tuple[Prompt, Completion]
"""What the judges are shown, see ``as_judged``."""


def pending(task: Task) -> Pending:
    """Count the work that is left to do.

    The store first notes which of its entries the task needs, so that none of those that are
    counted here is dropped later.
    """
    candidate, store = task.candidate, task.store
    missing: set[str] = set()
    wanted: dict[Hashable, Judge] = {}
    unweighed: list[tuple[str, Prompt, list[Completion]]] = []
    for name, prompts in task.plan.items():
        keys = {prompt.id: candidate.keys(prompt) for prompt in prompts}
        store.use(key for several in keys.values() for key in several)
        known = candidate.known(prompts, store)
        absent = {
            key for several in keys.values() for key in several if key not in known
        }
        missing |= absent
        given = {
            p.id: [known[key] for key in keys[p.id] if key in known] for p in prompts
        }
        unweighed += [
            (name, p, given[p.id])
            for p in prompts
            if any(each.token_ids for each in given[p.id])
        ]
        asking = [judge for judge in task.judges[name] if judge.identity is not None]
        usable = [
            as_judged(prompt, answer)
            for prompt in (prompts if asking else ())
            for answer in given[prompt.id]
            if unusable(answer, candidate.max_tokens) is None
        ]
        formed = cascade.of(task.judges[name])
        for judge in asking:
            read = usable
            if formed and judge is formed.second:
                read = _unsure(
                    formed,
                    usable,
                    second_judge_sample(task.judges[name], name, prompts),
                    store,
                )
            wanted |= {(judge.identity, key): judge for key in absent}
            wanted |= {
                verdict_key(judge, shown, answer.text): judge
                for shown, answer in read
                if judge.without_asking(shown, answer) is None
            }
    verdicts = [key for key in wanted if isinstance(key, str)]
    store.use(verdicts)
    stored = store.judged(verdicts)
    unread = {key: judge for key, judge in wanted.items() if key not in stored}
    names = frozenset(judge.name for judge in unread.values())
    count = sum(judge.samples for judge in unread.values())
    may_weigh = any(_may_differ(task, *each, unread) for each in unweighed)
    return Pending(len(missing), count, names, may_weigh)


def _may_differ(
    task: Task,
    name: str,
    prompt: Prompt,
    answers: Sequence[Completion],
    unread: Container[object],
) -> bool:
    """True unless the verdicts on a prompt's answers are known, and no weight decides anything."""
    verdicts: list[Judgement] = []
    for answer in answers:
        if fault := unusable(answer, task.candidate.max_tokens):
            verdicts.append(fault)
            continue
        shown, read = as_judged(prompt, answer)
        for judge in task.judges[name]:
            key = verdict_key(judge, shown, read.text)
            known = judge.without_asking(shown, read) or task.store.judgements(
                [key]
            ).get(key)
            if known is None and (key in unread or judge.identity is None):
                return True
            verdicts += [known] if known else []
    return task.weighs_all or weights_decide(verdicts)


def _unsure(
    formed: cascade.Cascade,
    usable: Sequence[_Shown],
    sample: frozenset[str],
    store: Store,
) -> list[_Shown]:
    """The answers that the second judge may have to read: the first one is not known to be sure."""
    keys = [verdict_key(formed.first, shown, answer.text) for shown, answer in usable]
    stored = store.judgements(set(keys))
    return [
        each
        for each, key in zip(usable, keys, strict=True)
        if each[0].id in sample or key not in stored or formed.is_unsure(stored[key])
    ]


def verdict_key(judge: Judge, prompt: Prompt, answer: str) -> str:
    """Content key of a verdict: equal answers to equal prompts are judged once.

    Both are as the judge sees them, without an attack. Where it breaks special tokens up, what it
    is shown belongs to the key. The verdict on a choice says whether it is right, so it depends on
    the answer key too.
    """
    special = judge.special_tokens
    changes = special.changes(prompt.transcript, answer) if special else ()
    key = [list(prompt.options), prompt.reference] if prompt.options else []
    judged_by = (
        [judge.identity, judge.generation] if judge.generation else judge.identity
    )
    return content_key(judged_by, prompt.turns, answer, *changes, *key)


LEAST = (
    64  # prompts at one time where nothing else is known, as of servers that others run
)


def prompts_at_once(
    limits: Limits,
    models: Iterable[CandidateModel | JudgeModel],
    samples: int = 1,
    *,
    copies: int = 1,
) -> int:
    """Prompts that are answered or judged at one time: enough to keep the engines full.

    Twice as many answers as the engines run sequences: a prompt's answers come when the slowest of
    them does, so on average half of them are running. ``copies`` of each model may have been added
    to what the options ask for.
    """
    if limits.in_flight is not None:
        return limits.in_flight
    if limits.stop_early:
        return LEAST  # what is in flight when a benchmark stops is for nothing
    started = [(kinds.get(m.engine), m.args) for m in models if isinstance(m, Served)]
    widest = max(
        (e.sequences(args) * e.parallel(args).copies for e, args in started), default=0
    )
    return max(LEAST, math.ceil(2 * widest * copies / samples))
