"""Ask a server again for part of what is stored of it, before that decides anything.

A URL does not say which weights it serves: somebody may have put others behind it. If a server
differs from what is stored by more than from its own repetition, all that is stored of it is set
aside, and the run asks for it anew.

A server that lists the probabilities of tokens is recognised by them, whatever it draws: other
weights change them. Any other is asked once more for some stored answers, as they were asked for
the first time. A judge is asked for its check once more, so that the check is of the judge as it
is now, and for some stored verdicts.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from itertools import chain, islice, takewhile, zip_longest
from statistics import fmean, median
from typing import Generic, Literal, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from refusal_checks.benchmarks.attacks import as_judged
from refusal_checks.core.errors import EndpointError, ModelError
from refusal_checks.core.prompts import Kind, Message, Prompt
from refusal_checks.core.records import Completion, unusable
from refusal_checks.core.store import Store
from refusal_checks.core.text import count
from refusal_checks.core.verdicts import Invalid, Judgement, Rated, Reason
from refusal_checks.engines.servers import Servers
from refusal_checks.evaluation.planning import Judges, Plan, Task, verdict_key
from refusal_checks.judges import panel as panels
from refusal_checks.judges.judge import Judge
from refusal_checks.models.candidates import Candidate, ServedCandidate
from refusal_checks.models.client.client import Client
from refusal_checks.models.client.server_errors import MALFORMED
from refusal_checks.models.names import Attached, Model

REPEATED = 20
"""Prompts whose stored answers, or verdicts besides those of its check, a server gives again."""

LEVEL = 0.05
"""How often a server that has not changed may be taken for one that has."""

SHARE = 0.1
"""Least share of stored answers or verdicts that must be unlike: fewer are other roundings."""

AT_ONCE = 20
"""Requests under way at one time; fewer the second time, so that batches are other ones."""

TOLERANCE = 0.5
"""Difference of log-probabilities, in nats, that rounding and other batches may make.

Of the median of ``distance`` over ten prompts that should be refused, or ten others. Measured with
vLLM's CPU build, 135 million parameters and 160 prompts: the same weights, asked again, busy,
started again or in another precision, differed by at most 0.41 in 4,400 draws; three fine-tuned
versions of a model by at least 2.6 from each other in 2,800.
"""

FAR, SEVERAL = 2.0, 2
"""A distance that no rounding makes, and how many prompts with one are another model's answers.

Of 2,080 distances of the same weights, measured as above, the largest was 1.46.
"""

LEAST_LISTED = 2
"""Tokens that a server must list: the one that it chose says nothing of the others."""

RATING_TOLERANCE = 0.25
"""Difference of two ratings, on a scale up to 5, that rounding may make."""

_WHY = "a URL does not say which weights it serves"

LOOKED_AT = 500
"""Most prompts of which stored verdicts are looked for."""

Item = TypeVar("Item")
Said = TypeVar("Said")
Say = Callable[[str], None]
Role = Literal["candidate", "judge"]

FirstTokens = Mapping[str, float]
"""Natural log-probabilities of the most probable first tokens of an answer."""


class Trait(NamedTuple):
    """What a server is recognised by: how it begins to answer a conversation."""

    kind: Kind | None  # of the prompt
    messages: tuple[Message, ...]
    tokens: FirstTokens


_TRAITS = TypeAdapter(list[Trait])


@dataclass(frozen=True)
class Repetition(Generic[Said]):
    """What a server was asked for again: what is stored, what it says now, and once more.

    ``again`` is empty where it says what is stored. None is what it failed to say both times.
    """

    stored: Sequence[Said]
    now: Sequence[Said]
    again: Sequence[Said] = ()

    def differing(self, likeness: Callable[[Said, Said], float]) -> tuple[int, bool]:
        """How many of the stored are unlike the other two, and whether the server has changed.

        Had nothing changed, any of the three would be the one unlike the others equally often, so
        the stored one in a third of the cases: a binomial test, at ``LEVEL``. Where all three are
        equally alike, nothing is shown. A handful that all differ is enough if the server repeats
        itself.
        """
        if not self.again:
            return 0, False
        odd: Counter[str] = Counter()
        repeats = 0
        for stored, now, again in zip(self.stored, self.now, self.again, strict=True):
            without = {
                "stored": likeness(now, again),
                "now": likeness(stored, again),
                "again": likeness(stored, now),
            }
            most = max(without.values())
            unlike = [name for name, value in without.items() if value == most]
            if len(unlike) == 1:
                odd[unlike[0]] += 1
            repeats += without["stored"] == 1
        if odd["stored"] < max(1, SHARE * len(self.stored)):
            return odd["stored"], False
        if odd["stored"] == repeats == len(self.stored):
            return odd["stored"], True
        from scipy import (
            stats,
        )  # takes a while to import, which most runs need not wait for

        test = stats.binomtest(odd["stored"], odd.total(), 1 / 3, alternative="greater")
        return odd["stored"], bool(test.pvalue <= LEVEL)


def likeness(one: str, other: str) -> float:
    """How much two texts have in common, from 0 to 1: the share of their runs of three letters."""
    if one == other:
        return 1.0
    first, second = _runs(one), _runs(other)
    return 2 * (first & second).total() / max(1, first.total() + second.total())


def _runs(text: str) -> Counter[str]:
    folded = " ".join(text.casefold().split())
    return Counter(
        folded[start : start + 3] for start in range(max(1, len(folded) - 2))
    )


def distance(one: FirstTokens, other: FirstTokens) -> float:
    """The mean difference of the log-probabilities of tokens, in nats.

    A token that one side does not list counts there with the least log-probability that is listed.
    """
    least_one, least_other = min(one.values()), min(other.values())
    differences = [
        abs(one.get(token, least_one) - other.get(token, least_other))
        for token in one.keys() | other.keys()
    ]
    return sum(differences) / len(differences)


def is_other(kept: Sequence[Trait], now: Sequence[FirstTokens]) -> bool:
    """True if another model begins the answers to these conversations.

    It is if the usual prompt of a kind is answered otherwise, or ``SEVERAL`` prompts by far, as
    weights may have changed for some prompts alone.
    """
    distances: dict[Kind | None, list[float]] = {}
    for trait, tokens in zip(kept, now, strict=True):
        distances.setdefault(trait.kind, []).append(distance(trait.tokens, tokens))
    far = sum(each > FAR for of_kind in distances.values() for each in of_kind)
    return far >= SEVERAL or any(
        median(of_kind) > TOLERANCE for of_kind in distances.values()
    )


@dataclass(frozen=True)
class Verified:
    """The outcome of a verification.

    Attributes:
        prompts: by how many the candidate's server was recognised.
        changed: servers of which all was set aside: ``candidate``, ``judge``.
        notes: for the user; one for each of them.
    """

    prompts: int = 0
    changed: tuple[Role, ...] = ()
    notes: tuple[str, ...] = ()


def adopt(judges: Iterable[Judge], candidate: Candidate | None, store: Store) -> None:
    """Have judges and candidate use the present generation of what is stored of their models."""
    for judge in judges:
        judge.generation = store.generation(judge.stored_model)
    if isinstance(candidate, ServedCandidate):
        candidate.generation = store.generation(candidate.model_identity)


def adopt_all(task: Task) -> None:
    """The same for all of a run."""
    adopt(with_reasoned(task.judges), task.candidate, task.store)


def renew(task: Task, done: dict[str, str]) -> None:
    """Set aside all that is stored of the run's models, but for those that are ``done``."""
    identities = {judge.stored_model for judge in with_reasoned(task.judges)}
    if isinstance(task.candidate, ServedCandidate):
        identities.add(task.candidate.model_identity)
    for identity in identities - done.keys() - {""}:
        task.store.renew(identity)
        done[identity] = ""
    adopt_all(task)


def unverified(models: Iterable[Model], servers: Servers) -> str:
    """A reservation about stored answers that no server confirmed; empty but for batches."""
    attached = [model.name for model in models if isinstance(model, Attached)]
    if servers.are_live or not attached:
        return ""
    return (
        f"what is stored of {', '.join(attached)} was not verified: no server was asked"
    )


def verify(
    task: Task, clients: Iterable[Client], done: dict[str, str], say: Say
) -> Verified:
    """Ask the run's servers again, and set aside what they no longer say.

    Args:
        task: of the run; its candidate and judges are given their present generations.
        clients: of its servers.
        done: by identity, the judges' models that this session has verified, and what to say of
            each if its verdicts were set aside; those of this run join.
        say: takes one line before a server is asked.

    Raises:
        ModelError: a server fails, so that nothing can be verified.
    """
    judges: dict[str, list[Judge]] = {}
    for judge in with_reasoned(task.judges):
        if judge.is_attached:
            judges.setdefault(judge.stored_model, []).append(judge)
    candidate = task.candidate
    is_asked = isinstance(candidate, ServedCandidate) and candidate.is_attached
    if not is_asked and not judges:
        return Verified()
    return asyncio.run(_verify(task, clients, done, judges, say))


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
        candidate = task.candidate
        if isinstance(candidate, ServedCandidate) and candidate.is_attached:
            recognised, note = await _verify_candidate(
                candidate, task.plan, task.store, say
            )
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


async def _verify_candidate(
    candidate: ServedCandidate, plan: Plan, store: Store, say: Say
) -> tuple[int, str]:
    """By how many prompts it was recognised, and what to say if its answers are set aside."""
    prompts = _shuffled(plan)
    traits = _kept_traits(candidate, store) if candidate.lists_first_tokens else []
    stored = _stored_answers(candidate, prompts, store)
    if not prompts or not (traits or stored):
        await _keep_traits(candidate, prompts, store)
        return 0, ""
    what = "its probabilities"
    if not traits:
        what = count(sum(len(answers) for _, answers in stored), "stored answer")
    say(f"checking that {candidate.name} is unchanged: asking again for {what}: {_WHY}")
    asked, has_changed, why = 0, False, ""
    now = await _first_tokens(candidate, [trait.messages for trait in traits])
    if now:
        asked = len(traits)
        has_changed = is_other(traits, now)
        why = f"its probabilities for {count(asked, 'prompt')} are others than before"
    recognised = {trait.kind for trait in traits} if now else set()
    # A kind of prompts by which it cannot be recognised needs answers.
    left = [
        (prompt, answers) for prompt, answers in stored if prompt.kind not in recognised
    ]
    if left and not has_changed:
        repetition = await _asked_again(candidate, left)
        size = len(repetition.stored)
        asked += size
        unlike, has_changed = repetition.differing(_likeness_of_all)
        why = f"its answers to {unlike} of {count(size, 'prompt')} differ by more than its repeats"
    if has_changed:
        store.renew(candidate.model_identity)
        await _keep_traits(candidate, prompts, store)
        return 0, _note(candidate.name, "answers", why)
    first = prompts[:REPEATED]
    kinds = {prompt.kind for prompt in first}
    own = [trait for trait in traits if trait.kind in kinds]
    if len(own) < len(first) or kinds - {trait.kind for trait in own}:
        await _keep_traits(
            candidate, prompts, store
        )  # a run of other or fewer prompts kept them
    return asked if stored else 0, ""


def _shuffled(plan: Plan) -> list[Prompt]:
    """All prompts, each once, of each kind in turn; others come first each time."""
    by_kind: dict[Kind | None, list[Prompt]] = {}
    for prompt in {
        one.messages: one for several in plan.values() for one in several
    }.values():
        by_kind.setdefault(prompt.kind, []).append(prompt)
    for of_kind in by_kind.values():
        random.shuffle(of_kind)
    in_turn = chain.from_iterable(zip_longest(*by_kind.values()))
    return [prompt for prompt in in_turn if prompt is not None]


_Stored = tuple[Prompt, list[str]]
"""A prompt, and the first of its answers, as they are stored."""


def _stored_answers(
    candidate: ServedCandidate, prompts: Sequence[Prompt], store: Store
) -> list[_Stored]:
    """The answers to the first ``REPEATED`` prompts that have any."""
    stored: list[_Stored] = []
    for start in range(0, len(prompts), 5 * REPEATED):
        part = prompts[start : start + 5 * REPEATED]
        answers = candidate.known(part, store)
        for prompt in part:
            keys = takewhile(answers.__contains__, candidate.keys(prompt))
            if texts := [answers[key].text for key in keys]:
                stored.append((prompt, texts))
        if len(stored) >= REPEATED:
            break
    return stored[:REPEATED]


async def _asked_again(
    candidate: ServedCandidate, stored: Sequence[_Stored]
) -> Repetition[Sequence[str] | None]:
    """Ask as for the first time: an answer may be another one when it is asked for alone."""

    async def ask(asked: _Stored) -> Sequence[str] | None:
        prompt, answers = asked
        again = await candidate.answer(prompt, 0, len(answers))
        texts = [answer.text for answer in again if isinstance(answer, Completion)]
        return texts if len(texts) == len(answers) else None

    texts = [answers for _, answers in stored]
    return await _repeated(stored, texts, ask, _likeness_of_all, candidate.name)


def _likeness_of_all(these: Sequence[str] | None, those: Sequence[str] | None) -> float:
    if these is None or those is None:
        return float(these is those)
    return fmean(map(likeness, these, those))


def _kept_traits(candidate: ServedCandidate, store: Store) -> list[Trait]:
    """By what the server is recognised; empty if nothing is kept, or it cannot be read."""
    kept = store.fingerprint(candidate.model_identity)
    with suppress(ValidationError):
        return _TRAITS.validate_json(kept) if kept else []
    return []


async def _keep_traits(
    candidate: ServedCandidate, prompts: Sequence[Prompt], store: Store
) -> None:
    """Keep by what the server is recognised from now on, if it lists probabilities.

    What was kept for kinds of prompts that this run does not ask stays.
    """
    chosen = list(
        islice((prompt for prompt in prompts if not prompt.is_continued), REPEATED)
    )
    conversations = [candidate.messages(prompt) for prompt in chosen]
    tokens = await _first_tokens(candidate, conversations)
    if tokens:
        kinds = [prompt.kind for prompt in chosen]
        others = [t for t in _kept_traits(candidate, store) if t.kind not in kinds]
        traits = others + list(map(Trait, kinds, conversations, tokens))
        store.keep_fingerprint(candidate.model_identity, _TRAITS.dump_json(traits))


async def _first_tokens(
    candidate: ServedCandidate, conversations: Sequence[tuple[Message, ...]]
) -> list[FirstTokens]:
    """The first tokens of an answer to each; empty if the server does not list them for all."""
    if not candidate.lists_first_tokens:
        return []
    try:
        listed = list(await asyncio.gather(*map(candidate.first_tokens, conversations)))
    except (EndpointError, *MALFORMED):
        return []
    return listed if all(len(tokens) >= LEAST_LISTED for tokens in listed) else []


# The judges.


def with_reasoned(by_benchmark: Judges) -> Iterator[Judge]:
    """All judges of a run, those included that write reasons for another."""
    for judge in dict.fromkeys(chain.from_iterable(by_benchmark.values())):
        yield judge
        if judge.reasoned:
            yield judge.reasoned


@dataclass(frozen=True)
class _Exchange:
    """What a judge was asked, and what is stored of its answer."""

    judge: Judge
    prompt: Prompt
    answer: Completion
    verdict: Judgement

    @property
    def key(self) -> str:
        return verdict_key(self.judge, self.prompt, self.answer.text)


async def _verify_judge(panel: Sequence[Judge], task: Task, say: Say) -> str:
    """What to tell the user if the verdicts of a model are set aside, else nothing.

    ``panel`` is the model's judges: one for each way of judging.
    """
    name, store = panel[0].name, task.store
    checked = list(_stored_of_check(panel, task.judges, store))
    exchanges = checked + list(islice(_stored_of_run(panel, task), REPEATED))
    if not exchanges:
        return ""
    verdicts = count(len(exchanges), "stored verdict")
    say(
        f"checking that judge {name} is unchanged: asking again for {verdicts}, {len(checked)} of "
        f"its check: {_WHY}"
    )
    said: dict[str, Judgement] = {}

    async def ask(exchange: _Exchange) -> Judgement | None:
        verdict = await exchange.judge.judge(exchange.prompt, exchange.answer)
        if isinstance(verdict, Invalid) and verdict.reason is Reason.JUDGE_ERROR:
            return None
        said.setdefault(exchange.key, verdict)
        return verdict

    stored = [exchange.verdict for exchange in exchanges]
    repetition = await _repeated(exchanges, stored, ask, agreement, f"judge {name}")
    unlike, has_changed = repetition.differing(agreement)
    if has_changed:
        store.renew(panel[0].stored_model)
        total = count(len(repetition.stored), "verdict")
        return _note(
            f"judge {name}", "verdicts", f"{unlike} of {total} are others than before"
        )
    keys = {exchange.key for exchange in checked} & said.keys()
    now = {
        key: verdict for key in keys if not isinstance(verdict := said[key], Invalid)
    }
    with store.transaction():
        store.forget_judgements(keys)
        store.add_judgements(now)
    return ""


def agreement(one: Judgement | None, other: Judgement | None) -> float:
    """1 if two verdicts are the same, but for what rounding does to a rating; else 0."""
    if one is None or other is None:
        return float(one is other)
    if isinstance(one, Rated) and isinstance(other, Rated):
        return float(abs(one.score - other.score) < RATING_TOLERANCE)
    return float(one.verdict == other.verdict)


def _stored_of_check(
    panel: Sequence[Judge], by_benchmark: Judges, store: Store
) -> Iterator[_Exchange]:
    """The exchanges of the judge's checks whose verdicts are stored."""
    for name, asked in by_benchmark.items():
        judges = [judge for judge in asked if judge in panel]
        if not judges or not panels.is_check(name):
            continue
        prompts, recorded = panels.exchanges(name)
        known = recorded.known(prompts, store)
        exchanges = [
            (prompt, known[key]) for prompt in prompts for key in recorded.keys(prompt)
        ]
        for judge in judges:
            yield from _stored_verdicts(judge, exchanges, store)


def _stored_of_run(panel: Sequence[Judge], task: Task) -> Iterator[_Exchange]:
    """Exchanges of the run whose verdicts are stored, each prompt's first answer, by chance."""
    prompts = [
        (name, prompt) for name, several in task.plan.items() for prompt in several
    ]
    for name, prompt in random.sample(prompts, min(LOOKED_AT, len(prompts))):
        judges = [judge for judge in task.judges[name] if judge in panel]
        answers = task.candidate.known([prompt], task.store) if judges else {}
        exchanges = [
            as_judged(prompt, answer)
            for answer in islice(answers.values(), 1)
            if unusable(answer, task.candidate.max_tokens) is None
        ]
        for judge in judges:
            yield from _stored_verdicts(judge, exchanges, task.store)


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
    """Ask for items again, and once more if the server does not say what is stored.

    ``ask`` returns None where the server fails. The second time the order is another one and fewer
    requests are under way, so that an engine's batches are no more alike than they were at first.
    """
    rounds: list[Sequence[Said | None]] = []
    for at_once in (AT_ONCE, AT_ONCE // 4):
        said = await _asked(items, ask, at_once)
        rounds.append(said)
        pairs = zip(stored, said, strict=True)
        if all(new is not None and likeness(old, new) == 1 for old, new in pairs):
            break
    rows = list(zip(stored, *rounds, strict=True))
    failed = sum(None in row for row in rows)
    if 2 * failed > len(rows):
        raise ModelError(
            f"{name}: run the same command again once its server answers, or use what is stored as "
            f"it is with --stored-only: {failed} of {len(rows)} requests failed for what is stored "
            "of it"
        )
    # A server that gives nothing twice refuses what it once answered; once may be an accident.
    told = [row for row in rows if row.count(None) != 1]
    return Repetition(*zip(*told, strict=True))


async def _asked(
    items: Sequence[Item], ask: Callable[[Item], Awaitable[Said | None]], at_once: int
) -> list[Said | None]:
    """The answers, in the order of the items, which are asked for in any order."""
    free = asyncio.Semaphore(at_once)
    answers: list[Said | None] = [None] * len(items)

    async def ask_for(place: int) -> None:
        async with free:
            with suppress(EndpointError):
                answers[place] = await ask(items[place])

    places = random.sample(range(len(items)), len(items))
    await asyncio.gather(*map(ask_for, places))
    return answers
