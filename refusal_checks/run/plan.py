"""What is to be evaluated, and how much of it the store lacks."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from refusal_checks.benchmarks.attacks import as_judged
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, unusable
from refusal_checks.core.store import Store, content_key
from refusal_checks.judges import cascade
from refusal_checks.judges.base import Judge, special_tokens, verdicts_asked, without_asking
from refusal_checks.models.candidates import Candidate

Plan = Mapping[str, Sequence[Prompt]]
"""The prompts to evaluate, by benchmark."""

Judges = Mapping[str, tuple[Judge, ...]]
"""The judges of each benchmark; several decide by majority, and no two have the same name."""


@dataclass(frozen=True)
class Task:
    """Prompts to answer and answers to judge, through the store that holds what is done.

    Attributes:
        whole: the plan that this one is a part of; None if it is all.
    """

    plan: Plan
    candidate: Candidate
    judges: Judges
    store: Store
    whole: Plan | None = None

    @property
    def drawn(self) -> Mapping[str, frozenset[str]]:
        """The prompts whose answers the second judge of a cascade reads in any case, by id."""
        whole = self.whole or self.plan
        return {name: drawn(self.judges[name], name, whole[name]) for name in self.plan}


def drawn(judges: Sequence[Judge], benchmark: str, prompts: Sequence[Prompt]) -> frozenset[str]:
    """See ``Task.drawn``; of one benchmark."""
    found = cascade.of(judges)
    return found.drawn(benchmark, [p.id for p in prompts]) if found else frozenset()


@dataclass(frozen=True)
class Pending:
    """What the store does not hold yet; equal prompts count once, even those of two benchmarks.

    Attributes:
        verdicts: most verdicts to ask for; equal answers are judged once.
        judges: names of the judges to ask.
    """

    answers: int
    verdicts: int
    judges: frozenset[str] = frozenset()


def pending(task: Task) -> Pending:
    """Count the work that is left to do.

    The store first notes which of its entries the task needs, so that none of those that are
    counted here is dropped later.
    """
    candidate, store = task.candidate, task.store
    missing: set[str] = set()
    wanted: dict[Hashable, Judge] = {}
    for name, prompts in task.plan.items():
        store.use(key for prompt in prompts for key in candidate.keys(prompt))
        known = candidate.known(prompts, store)
        asked = [judge for judge in task.judges[name] if judge.identity is not None]
        spared = _spared(task, name, known)
        for prompt in prompts:
            keys = candidate.keys(prompt)
            absent = [key for key in keys if key not in known]
            missing.update(absent)
            usable = [
                as_judged(prompt, answer)
                for key in keys
                if (answer := known.get(key)) and unusable(answer, candidate.max_tokens) is None
            ]
            for judge in asked:
                wanted |= {(judge.identity, key): judge for key in absent}
                wanted |= {
                    key: judge
                    for shown, answer in usable
                    if without_asking(judge, shown, answer) is None
                    and (key := verdict_key(judge, shown, answer.text)) not in spared
                }
    keys = [key for key in wanted if isinstance(key, str)]
    store.use(keys)
    stored = store.judged(keys)
    unread = [judge for key, judge in wanted.items() if key not in stored]
    verdicts = sum(map(verdicts_asked, unread))
    return Pending(len(missing), verdicts, frozenset(judge.name for judge in unread))


def _spared(task: Task, name: str, known: Mapping[str, Completion]) -> frozenset[str]:
    """Keys of verdicts that the second judge of a cascade need not give: the first one is sure."""
    found = cascade.of(task.judges[name])
    if found is None:
        return frozenset()
    pairs: dict[str, set[str]] = {}
    needed: set[str] = set()
    sample = task.drawn[name]
    for prompt in task.plan[name]:
        answers = (known[key] for key in task.candidate.keys(prompt) if key in known)
        for shown, answer in (as_judged(prompt, each) for each in answers):
            first, second = (
                verdict_key(judge, shown, answer.text) for judge in (found.first, found.second)
            )
            pairs.setdefault(first, set()).add(second)
            if prompt.id in sample:
                needed.add(second)
    stored = task.store.judgements(pairs)
    sure = (key for key, verdict in stored.items() if not found.is_unsure(verdict))
    return frozenset(second for key in sure for second in pairs[key]) - needed


def verdict_key(judge: Judge, prompt: Prompt, answer: str) -> str:
    """Content key of a verdict: equal answers to equal prompts are judged once.

    Both are as the judge sees them, without an attack. Where it breaks special tokens up, what it
    is shown belongs to the key. The verdict on a choice says whether it is right, so it depends on
    the answer key too.
    """
    special = special_tokens(judge)
    changes = special.changes(prompt.transcript, answer) if special else ()
    key = [list(prompt.options), prompt.reference] if prompt.options else []
    return content_key(judge.identity, prompt.turns, answer, *changes, *key)
