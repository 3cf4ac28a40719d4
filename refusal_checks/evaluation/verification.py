"""Verify stored answers and verdicts: repeat some requests before the stored ones decide anything.

A URL does not say which weights it serves: somebody may have replaced them. If a server differs
from its stored answers by more than from its own repetition, everything stored of it is set aside
and the run asks anew. See ``recognition`` for what counts as another model.

A judge repeats its check, so that the check is of the judge as it is now, and some stored verdicts.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from itertools import chain, islice, takewhile, zip_longest
from typing import Literal, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from refusal_checks.core.errors import EndpointError, ModelError
from refusal_checks.core.prompts import Kind, Message, Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.store import Store
from refusal_checks.core.text import count
from refusal_checks.core.verdicts import Invalid, Judgement, Reason, Valid
from refusal_checks.engines.servers import Servers
from refusal_checks.evaluation.planning import Judges, Plan, Task, verdict_key
from refusal_checks.evaluation.recognition import (
    FirstTokens,
    Repetition,
    Trait,
    agreement,
    is_other,
    likeness_of_all,
)
from refusal_checks.judges import panel as panels
from refusal_checks.judges.judge import Judge
from refusal_checks.judges.shown import as_judged
from refusal_checks.judges.trust import canary
from refusal_checks.models.candidates import Candidate, ServedCandidate
from refusal_checks.models.client.client import Client
from refusal_checks.models.client.server_errors import MALFORMED
from refusal_checks.models.names import Attached, Model

REPEATED = 20
"""Number of prompts whose stored answers, or verdicts besides the check's, a server repeats."""

AT_ONCE = 20
"""Concurrent requests; fewer the second time, so that an engine's batches differ."""

LEAST_LISTED = 2
"""Least tokens that a server must list: the one that it chose says nothing about the others."""

LOOKED_AT = 500
"""Look for stored verdicts on at most so many prompts."""

_WHY = "a URL does not say which weights it serves"

Item = TypeVar("Item")
Said = TypeVar("Said")
Say = Callable[[str], None]
Role = Literal["candidate", "judge"]

_TRAITS = TypeAdapter(list[Trait])


@dataclass(frozen=True)
class Verified:
    """The outcome of a verification.

    Attributes:
        prompts: number of prompts by which the candidate's server was recognised.
        changed: servers whose stored results were set aside: ``candidate``, ``judge``.
        notes: a note for the user on each of them.
    """

    prompts: int = 0
    changed: tuple[Role, ...] = ()
    notes: tuple[str, ...] = ()


def all_judges(by_benchmark: Judges) -> Iterable[Judge]:
    """All judges of a run, once each."""
    return dict.fromkeys(chain.from_iterable(by_benchmark.values()))


def adopt(judges: Iterable[Judge], candidate: Candidate | None, store: Store) -> None:
    """Make judges and candidate use the current generation of their models' stored results."""
    for judge in judges:
        judge.generation = store.generation(judge.stored_model)
    if isinstance(candidate, ServedCandidate):
        candidate.generation = store.generation(candidate.model_identity)


def adopt_all(task: Task) -> None:
    """Do the same for all judges and the candidate of a run."""
    adopt(all_judges(task.judges), task.candidate, task.store)


def renew(task: Task, done: dict[str, str]) -> None:
    """Set aside everything stored of the run's models, except those that are ``done``."""
    identities = {judge.stored_model for judge in all_judges(task.judges)}
    if isinstance(task.candidate, ServedCandidate):
        identities.add(task.candidate.model_identity)
    for identity in identities - done.keys() - {""}:
        task.store.renew(identity)
        done[identity] = ""
    adopt_all(task)


def unverified(models: Iterable[Model], servers: Servers) -> str:
    """A reservation about stored answers that no server confirmed; empty unless a run asks none."""
    attached = [model.name for model in models if isinstance(model, Attached)]
    if servers.are_live or not attached:
        return ""
    return (
        f"what is stored of {', '.join(attached)} was not verified: no server was asked"
    )


def verify(
    task: Task, clients: Iterable[Client], done: dict[str, str], say: Say
) -> Verified:
    """Ask the run's servers again, and set aside stored results that they no longer reproduce.

    Args:
        task: the run's task; its candidate and judges get their current generations.
        clients: clients of its servers.
        done: models of judges that this session has verified, by identity, with a note on each
        whose verdicts were set aside. Those of this run are added.
        say: called with one line before a server is asked.

    Raises:
        ModelError: a server fails, so that nothing can be verified.
    """
    judges: dict[str, list[Judge]] = {}
    for judge in all_judges(task.judges):
        if judge.is_attached:
            judges.setdefault(judge.stored_model, []).append(judge)
    if _attached(task.candidate) is None and not judges:
        return Verified()
    return asyncio.run(_verify(task, clients, done, judges, say))


def _attached(candidate: Candidate) -> ServedCandidate | None:
    """The candidate, if its server is attached; else None."""
    if isinstance(candidate, ServedCandidate) and candidate.is_attached:
        return candidate
    return None


async def _verify(
    task: Task,
    clients: Iterable[Client],
    done: dict[str, str],
    judges: Mapping[str, Sequence[Judge]],
    say: Say,
) -> Verified:
    recognised = 0
    changed: list[Role] = []
    notes: list[str] = []
    async with AsyncExitStack() as stack:
        for client in clients:
            await stack.enter_async_context(client)
        candidate = _attached(task.candidate)
        if candidate:
            check = _CandidateCheck(candidate, task.plan, task.store, say)
            recognised, note = await check.run()
            if note:
                changed.append("candidate")
                notes.append(note)
            adopt_all(task)
        for identity, panel in judges.items():
            if identity not in done:
                done[identity] = await _verify_judge(panel, task, say)
                adopt_all(task)
            if done[identity]:
                changed.append("judge")
                notes.append(done[identity])
    return Verified(recognised, tuple(changed), tuple(notes))


def _note(name: str, what: str, why: str) -> str:
    return f"{name} has changed: {why}. Its stored {what} are set aside and asked for again"


# The candidate.


class _StoredAnswers(NamedTuple):
    """A prompt and its first stored answers."""

    prompt: Prompt
    texts: list[str]


class _CandidateCheck:
    """Recognises the candidate's server by its first tokens or by its answers."""

    def __init__(
        self, candidate: ServedCandidate, plan: Plan, store: Store, say: Say
    ) -> None:
        self._candidate = candidate
        self._store = store
        self._say = say
        self._prompts = _shuffled(plan)

    async def run(self) -> tuple[int, str]:
        """Return how many prompts recognise it, and a note if its answers are set aside."""
        candidate = self._candidate
        traits = self._kept_traits() if candidate.lists_first_tokens else []
        stored = self._stored_answers()
        if not self._prompts or not (traits or stored):
            await self._keep_traits()
            return 0, ""
        what = "its probabilities"
        if not traits:
            answers = sum(len(answer.texts) for answer in stored)
            what = count(answers, "stored answer")
        self._say(f"asking {candidate.name} again for {what}, because {_WHY}")
        asked = 0
        why = ""  # it is another model
        now = await self._first_tokens([trait.messages for trait in traits])
        if now:
            asked = len(traits)
            if is_other(traits, now):
                prompts = count(asked, "prompt")
                why = f"its probabilities for {prompts} differ from before"
        # A kind of prompts by which it cannot be recognised needs answers.
        recognised = {trait.kind for trait in traits} if now else set()
        left = [answers for answers in stored if answers.prompt.kind not in recognised]
        if left and not why:
            repetition = await self._asked_again(left)
            size = len(repetition.stored)
            asked += size
            unlike, has_changed = repetition.differing(likeness_of_all)
            if has_changed:
                prompts = count(size, "prompt")
                why = f"its answers to {unlike} of {prompts} differ by more than its repeats"
        if why:
            self._store.renew(candidate.model_identity)
            await self._keep_traits()
            return 0, _note(candidate.name, "answers", why)
        if not self._are_enough(traits):
            await self._keep_traits()  # a run of other or fewer prompts kept them
        return asked if stored else 0, ""

    def _are_enough(self, traits: Sequence[Trait]) -> bool:
        """True if as many traits as possible are kept for each kind of prompts."""
        first = self._prompts[:REPEATED]
        kinds = {prompt.kind for prompt in first}
        own = [trait for trait in traits if trait.kind in kinds]
        return len(own) >= len(first) and kinds <= {trait.kind for trait in own}

    def _stored_answers(self) -> list[_StoredAnswers]:
        """Stored answers to the first ``REPEATED`` prompts that have any."""
        stored: list[_StoredAnswers] = []
        part = 5 * REPEATED
        for start in range(0, len(self._prompts), part):
            prompts = self._prompts[start : start + part]
            answers = self._candidate.known(prompts, self._store)
            for prompt in prompts:
                keys = takewhile(answers.__contains__, self._candidate.keys(prompt))
                texts = [answers[key].text for key in keys]
                if texts:
                    stored.append(_StoredAnswers(prompt, texts))
            if len(stored) >= REPEATED:
                break
        return stored[:REPEATED]

    async def _asked_again(
        self, stored: Sequence[_StoredAnswers]
    ) -> Repetition[Sequence[str] | None]:
        """Ask for the same number of answers as at first: an answer asked for alone may differ."""

        async def ask(asked: _StoredAnswers) -> Sequence[str] | None:
            again = await self._candidate.answer(asked.prompt, 0, len(asked.texts))
            texts = [answer.text for answer in again if isinstance(answer, Completion)]
            return texts if len(texts) == len(asked.texts) else None

        texts = [answers.texts for answers in stored]
        return await _repeated(
            stored, texts, ask, likeness_of_all, self._candidate.name
        )

    def _kept_traits(self) -> list[Trait]:
        """Read the traits that recognise the server; empty if none are kept or readable."""
        kept = self._store.fingerprint(self._candidate.model_identity)
        if not kept:
            return []
        try:
            return _TRAITS.validate_json(kept)
        except ValidationError:
            return []

    async def _keep_traits(self) -> None:
        """Keep the traits that recognise the server from now on, if it lists probabilities.

        Traits kept for kinds of prompts that this run does not ask stay.
        """
        chosen = list(islice(self._prompts, REPEATED))
        conversations = [self._candidate.messages(prompt) for prompt in chosen]
        tokens = await self._first_tokens(conversations)
        if tokens:
            kinds = [prompt.kind for prompt in chosen]
            traits = [trait for trait in self._kept_traits() if trait.kind not in kinds]
            traits += map(Trait, kinds, conversations, tokens)
            identity = self._candidate.model_identity
            self._store.keep_fingerprint(identity, _TRAITS.dump_json(traits))

    async def _first_tokens(
        self, conversations: Sequence[tuple[Message, ...]]
    ) -> list[FirstTokens]:
        """Ask for the first tokens of each answer; empty unless the server lists all of them."""
        if not self._candidate.lists_first_tokens:
            return []
        asked = map(self._candidate.first_tokens, conversations)
        try:
            listed = list(await asyncio.gather(*asked))
        except (EndpointError, *MALFORMED):
            return []
        are_listed = all(len(tokens) >= LEAST_LISTED for tokens in listed)
        return listed if are_listed else []


def _shuffled(plan: Plan) -> list[Prompt]:
    """All prompts once each, the kinds in turn, in a new random order for each call."""
    prompts = chain.from_iterable(plan.values())
    different = {prompt.messages: prompt for prompt in prompts}
    by_kind: dict[Kind | None, list[Prompt]] = {}
    for prompt in different.values():
        by_kind.setdefault(prompt.kind, []).append(prompt)
    for of_kind in by_kind.values():
        random.shuffle(of_kind)
    in_turn = chain.from_iterable(zip_longest(*by_kind.values()))
    return [prompt for prompt in in_turn if prompt is not None]


# The judges.


@dataclass(frozen=True)
class _Exchange:
    """What a judge was asked, and its stored verdict."""

    judge: Judge
    prompt: Prompt
    answer: Completion
    verdict: Judgement

    @property
    def key(self) -> str:
        return verdict_key(self.judge, self.prompt, self.answer.text)


async def _verify_judge(panel: Sequence[Judge], task: Task, say: Say) -> str:
    """Verify a judge's model; return a note if its verdicts are set aside, else nothing.

    ``panel`` holds the model's judges, one for each judging method.
    """
    name, store = panel[0].name, task.store
    checked = list(_stored_of_check(panel, task.judges, store))
    exchanges = checked + list(islice(_stored_of_run(panel, task), REPEATED))
    if not exchanges:
        return ""
    verdicts = count(len(exchanges), "stored verdict")
    say(
        f"asking judge {name} again for {verdicts} ({len(checked)} of its check), because {_WHY}"
    )
    repeated: dict[str, Judgement] = {}

    async def ask(exchange: _Exchange) -> Judgement | None:
        verdict = await exchange.judge.judge(exchange.prompt, exchange.answer)
        if isinstance(verdict, Invalid) and verdict.reason is Reason.JUDGE_ERROR:
            return None
        repeated.setdefault(exchange.key, verdict)
        return verdict

    stored = [exchange.verdict for exchange in exchanges]
    repetition = await _repeated(exchanges, stored, ask, agreement, f"judge {name}")
    unlike, has_changed = repetition.differing(agreement)
    if has_changed:
        store.renew(panel[0].stored_model)
        total = count(len(repetition.stored), "verdict")
        why = f"{unlike} of {total} differ from before"
        return _note(f"judge {name}", "verdicts", why)

    # So that the check is of the judge as it is now.
    now: dict[str, Valid] = {}
    asked = {exchange.key for exchange in checked} & repeated.keys()
    for key in asked:
        verdict = repeated[key]
        if not isinstance(verdict, Invalid):
            now[key] = verdict
    with store.transaction():
        store.forget_judgements(asked)
        store.add_judgements(now)
    return ""


def _stored_of_check(
    panel: Sequence[Judge], by_benchmark: Judges, store: Store
) -> Iterator[_Exchange]:
    """Exchanges of the judge's checks whose verdicts are stored."""
    for name, asked in by_benchmark.items():
        judges = [judge for judge in asked if judge in panel]
        if not judges or not panels.is_check(name):
            continue
        (way,) = canary.by_way({name: asked})
        check = panels.exchanges(way, asked)
        prompts, recorded = check.plan(), check.candidate()
        answers = recorded.known(prompts, store)
        exchanges: list[tuple[Prompt, Completion]] = []
        for prompt in prompts:
            for key in recorded.keys(prompt):
                exchanges.append(as_judged(prompt, answers[key]))
        for judge in judges:
            yield from _stored_verdicts(judge, exchanges, store)


def _stored_of_run(panel: Sequence[Judge], task: Task) -> Iterator[_Exchange]:
    """A random sample of the run's exchanges with stored verdicts; first answers only."""
    prompts: list[tuple[str, Prompt]] = []
    for name, of_benchmark in task.plan.items():
        prompts += [(name, prompt) for prompt in of_benchmark]
    for name, prompt in random.sample(prompts, min(LOOKED_AT, len(prompts))):
        judges = [judge for judge in task.judges[name] if judge in panel]
        if not judges:
            continue
        answers = task.candidate.known([prompt], task.store)
        first = next(iter(answers.values()), None)
        if first is None or task.without_judging(name, first):
            continue
        for judge in judges:
            yield from _stored_verdicts(judge, [as_judged(prompt, first)], task.store)


def _stored_verdicts(
    judge: Judge, exchanges: Iterable[tuple[Prompt, Completion]], store: Store
) -> Iterator[_Exchange]:
    asked = {
        verdict_key(judge, prompt, answer.text): (prompt, answer)
        for prompt, answer in exchanges
        if judge.without_asking(prompt, answer) is None
    }
    for key, verdict in store.judgements(asked).items():
        yield _Exchange(judge, *asked[key], verdict)


# Both.


async def _repeated(
    items: Sequence[Item],
    stored: Sequence[Said],
    ask: Callable[[Item], Awaitable[Said | None]],
    likeness: Callable[[Said, Said], float],
    name: str,
) -> Repetition[Said | None]:
    """Ask for items again, and a second time if the answer differs from the stored one.

    ``ask`` returns None where the server fails. The second time uses another order and fewer
    concurrent requests, so that an engine's batches are no more alike than they were at first.
    """
    rounds: list[Sequence[Said | None]] = []
    for at_once in (AT_ONCE, AT_ONCE // 4):
        answers = await _asked(items, ask, at_once)
        rounds.append(answers)
        pairs = zip(stored, answers, strict=True)
        if all(new is not None and likeness(old, new) == 1 for old, new in pairs):
            break
    rows = list(zip(stored, *rounds, strict=True))
    failed = len([row for row in rows if None in row])
    if 2 * failed > len(rows):
        raise ModelError(
            f"{name}: run the same command again once its server answers, or use what is stored as "
            f"it is with --stored-only: {failed} of {len(rows)} requests failed for what is stored "
            "of it"
        )
    # A server that gives nothing twice refuses what it once answered; once may be an accident.
    kept = [row for row in rows if row.count(None) != 1]
    return Repetition(*zip(*kept, strict=True))


async def _asked(
    items: Sequence[Item], ask: Callable[[Item], Awaitable[Said | None]], at_once: int
) -> list[Said | None]:
    """Ask for items in any order; return the answers in the items' order."""
    free = asyncio.Semaphore(at_once)
    answers: list[Said | None] = [None] * len(items)

    async def ask_for(place: int) -> None:
        async with free:
            with suppress(EndpointError):
                answers[place] = await ask(items[place])

    places = random.sample(range(len(items)), len(items))
    await asyncio.gather(*map(ask_for, places))
    return answers
