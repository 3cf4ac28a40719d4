"""Stored answers and verdicts of servers, verified before they decide anything.

What a URL serves is no identity: somebody may have put other weights behind it. So a run asks a
server again for a part of what is stored of it. If the server differs from that by more than from
its own repetition, all that is stored of it is set aside, and the run asks for it anew.

A server that lists the probabilities of tokens is recognised by them, whatever it draws: other
weights change them for any prompt. Any other is asked once more for some stored answers, as they
were asked for the first time. A judge is asked for its check once more, so that the check is of
the judge as it is now, and for some stored verdicts.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from itertools import chain, islice, takewhile
from statistics import median
from typing import Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from refusal_checks.benchmarks.attacks import as_judged
from refusal_checks.core.errors import EndpointError, ModelError
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion, unusable
from refusal_checks.core.store import Store
from refusal_checks.core.text import count
from refusal_checks.core.verdicts import Invalid, Judgement, Reason
from refusal_checks.engines.servers import Servers
from refusal_checks.judges import panel as panels
from refusal_checks.judges.base import Judge
from refusal_checks.models.candidates import ServedCandidate
from refusal_checks.models.client.answers import MALFORMED
from refusal_checks.models.spec import Attached, Model
from refusal_checks.run.assembly import Parts
from refusal_checks.run.planning import Plan, verdict_key

REPEATED = 20
"""Prompts whose stored answers, or verdicts besides those of its check, a server gives again."""

LEVEL = 0.05
"""How often a server that has not changed may be taken for one that has."""

AT_ONCE = 20
"""Requests under way at one time."""

TOLERANCE = 0.3
"""Difference of log-probabilities, in nats, that rounding and other batches may make; ``distance``.

Measured on vLLM's CPU build with 135 million parameters, as the median of 80 prompts: the same
weights in bfloat16 and float32 differ by 0.05, started again by 0.00, fine-tuned ones by @@@.
"""

_WHY = "a URL does not say which weights it serves"

LOOKED_AT = 500
"""Most prompts of which stored verdicts are looked for."""

Item = TypeVar("Item")
Said = TypeVar("Said")
Say = Callable[[str], None]

FirstTokens = Mapping[str, float]
"""Natural log-probabilities of the most probable first tokens of an answer."""

_FINGERPRINT = TypeAdapter(list[tuple[tuple[Message, ...], FirstTokens]])
"""Conversations, each with the first tokens of the answer to it."""


@dataclass(frozen=True)
class Repetition(Generic[Said]):
    """What a server was asked for again: what is stored, what it says now, and once more.

    ``again`` is empty where it says what is stored. What it failed to say is left out of all three.
    """

    stored: Sequence[Said]
    now: Sequence[Said]
    again: Sequence[Said] = ()

    def differing(self, likeness: Callable[[Said, Said], float]) -> tuple[int, bool]:
        """How many of the stored are unlike the other two, and whether the server has changed.

        Had nothing changed, any of the three would be the one unlike the others equally often, so
        the stored one in a third of the cases: a binomial test, at ``LEVEL``. Where all three are
        equally alike, nothing is shown. A handful that all differ is enough.
        """
        if not self.again:
            return 0, False
        odd: Counter[str] = Counter()
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
        if not odd["stored"]:
            return 0, False
        from scipy import stats  # takes a while to import, which most runs need not wait for

        test = stats.binomtest(odd["stored"], odd.total(), 1 / 3, alternative="greater")
        return odd["stored"], bool(test.pvalue <= LEVEL) or odd["stored"] == len(self.stored)


def likeness(one: str, other: str) -> float:
    """How much two texts have in common, from 0 to 1: the share of their runs of three letters."""
    if one == other:
        return 1.0
    first, second = _runs(one), _runs(other)
    return 2 * (first & second).total() / max(1, first.total() + second.total())


def _runs(text: str) -> Counter[str]:
    folded = " ".join(text.casefold().split())
    return Counter(folded[start : start + 3] for start in range(max(1, len(folded) - 2)))


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


def is_other(kept: Sequence[FirstTokens], now: Sequence[FirstTokens]) -> bool:
    """True if the first tokens of the same conversations are another model's."""
    return median(map(distance, kept, now)) > TOLERANCE


@dataclass(frozen=True)
class Verified:
    """What came of it.

    Attributes:
        prompts: by how many the candidate's server was recognised.
        notes: for the user; one for each model of which something was set aside.
    """

    prompts: int = 0
    notes: tuple[str, ...] = ()


def adopt(parts: Parts, store: Store) -> None:
    """Have candidate and judges use the present generation of what is stored of their models."""
    asked: list[ServedCandidate | Judge] = list(_judges(parts))
    if isinstance(parts.candidate, ServedCandidate):
        asked.append(parts.candidate)
    for one in asked:
        one.generation = store.generation(one.model_identity)


def renew(parts: Parts, store: Store, done: set[str]) -> None:
    """Set aside all that is stored of the run's models, but for those that are ``done``."""
    identities = {judge.model_identity for judge in _judges(parts)}
    if isinstance(parts.candidate, ServedCandidate):
        identities.add(parts.candidate.model_identity)
    for identity in identities - done - {""}:
        store.renew(identity)
        done.add(identity)


def unverified(models: Iterable[Model], servers: Servers) -> str:
    """What decides though it was not verified, in a sentence; mostly empty.

    Only ``--stored-only`` asks no server.
    """
    attached = [model.name for model in models if isinstance(model, Attached)]
    if servers.are_live or not attached:
        return ""
    return f"what is stored of {', '.join(attached)} was not verified: no server was asked"


def verify(parts: Parts, store: Store, done: set[str], say: Say) -> Verified:
    """Ask the run's servers again, and set aside what they no longer say.

    Args:
        parts: of the run; candidate and judges are given their present generations.
        done: identities of models that this session has verified, and from now on those of this
            run.
        say: takes one line before servers are asked.

    Raises:
        ModelError: a server fails, so that nothing can be verified.
    """
    candidate = parts.candidate
    judges: dict[str, list[Judge]] = {}
    for judge in _judges(parts):
        if judge.is_attached and judge.model_identity not in done:
            judges.setdefault(judge.model_identity, []).append(judge)
    is_asked = isinstance(candidate, ServedCandidate) and candidate.is_attached
    if not is_asked and not judges:
        return Verified()
    return asyncio.run(_verify(parts, store, done, judges, say))


async def _verify(
    parts: Parts, store: Store, done: set[str], judges: Mapping[str, Sequence[Judge]], say: Say
) -> Verified:
    repeated = 0
    notes: list[str] = []
    async with AsyncExitStack() as stack:
        for client in parts.engines.clients:
            await stack.enter_async_context(client)
        candidate = parts.candidate
        if isinstance(candidate, ServedCandidate) and candidate.is_attached:
            repeated, note = await _candidate(candidate, parts.plan, store, say)
            notes += [note] if note else []
            adopt(parts, store)
        for identity, panel in judges.items():
            note = await _judge(panel, parts, store, say)
            notes += [note] if note else []
            done.add(identity)
            adopt(parts, store)
    return Verified(repeated, tuple(notes))


# The candidate.


async def _candidate(
    candidate: ServedCandidate, plan: Plan, store: Store, say: Say
) -> tuple[int, str]:
    """By how many prompts it was recognised, and what to say if its answers are set aside."""
    prompts = _shuffled(plan)
    known = _kept_fingerprint(candidate, store)
    stored = _stored_answers(candidate, prompts, store)
    if not known and not stored:
        await _keep_fingerprint(candidate, prompts, store)
        return 0, ""
    say(f"asking {candidate.name} again for part of what is stored of it: {_WHY}")
    if now := await _first_tokens(candidate, [messages for messages, _ in known]):
        has_changed = is_other([tokens for _, tokens in known], now)
        why = f"its probabilities for {len(known)} prompts are not those of before"
        asked = len(known)
    else:
        repetition = await _asked_again(candidate, stored)
        unlike, has_changed = repetition.differing(likeness)
        why = (
            f"{unlike} of {count(len(repetition.stored), 'answer')} that were asked for again "
            "differ by more than its own repeats do"
        )
        asked = len(stored)
    if has_changed:
        store.renew(candidate.model_identity)
        await _keep_fingerprint(candidate, prompts, store)
        return 0, _set_aside_note(candidate.name, "answers", why)
    if len(known) < min(REPEATED, len(prompts)):  # kept by a run of few prompts, or not at all
        await _keep_fingerprint(candidate, prompts, store)
    return asked if stored else 0, ""


def _shuffled(plan: Plan) -> list[Prompt]:
    """All prompts, each once; another part of them comes first each time."""
    prompts = {prompt.messages: prompt for several in plan.values() for prompt in several}
    found = list(prompts.values())
    random.shuffle(found)
    return found


_Stored = tuple[Prompt, list[Completion]]
"""A prompt, and the first of its answers, as they are stored."""


def _stored_answers(
    candidate: ServedCandidate, prompts: Sequence[Prompt], store: Store
) -> list[_Stored]:
    """The answers to the first ``REPEATED`` prompts that have any."""
    stored: list[_Stored] = []
    for start in range(0, len(prompts), 5 * REPEATED):
        part = prompts[start : start + 5 * REPEATED]
        known = candidate.known(part, store)
        for prompt in part:
            keys = takewhile(known.__contains__, candidate.keys(prompt))
            if answers := [known[key] for key in keys]:
                stored.append((prompt, answers))
        if len(stored) >= REPEATED:
            break
    return stored[:REPEATED]


async def _asked_again(candidate: ServedCandidate, stored: Sequence[_Stored]) -> Repetition[str]:
    """Ask as for the first time: an answer may be another one when it is asked for alone."""

    async def ask(one: _Stored) -> list[str | None]:
        prompt, answers = one
        again = await candidate.answer(prompt, 0, len(answers))
        return [answer.text if isinstance(answer, Completion) else None for answer in again]

    texts = [[answer.text for answer in answers] for _, answers in stored]
    return await _repeated(stored, texts, ask, likeness, candidate.name)


def _kept_fingerprint(
    candidate: ServedCandidate, store: Store
) -> list[tuple[tuple[Message, ...], FirstTokens]]:
    """By what the server is recognised; empty if nothing is kept, or it cannot be read."""
    kept = store.fingerprint(candidate.model_identity)
    with suppress(ValidationError):
        return _FINGERPRINT.validate_json(kept) if kept else []
    return []


async def _keep_fingerprint(
    candidate: ServedCandidate, prompts: Sequence[Prompt], store: Store
) -> None:
    """Keep by what the server is recognised from now on, if it lists probabilities."""
    chosen = islice((prompt for prompt in prompts if not prompt.is_continued), REPEATED)
    conversations = [candidate.messages(prompt) for prompt in chosen]
    if tokens := await _first_tokens(candidate, conversations):
        kept = _FINGERPRINT.dump_json(list(zip(conversations, tokens, strict=True)))
        store.keep_fingerprint(candidate.model_identity, kept)


async def _first_tokens(
    candidate: ServedCandidate, conversations: Sequence[tuple[Message, ...]]
) -> list[FirstTokens]:
    """The first tokens of an answer to each; empty if the server does not list them for all."""
    if not candidate.lists_first_tokens:
        return []
    try:
        return list(await asyncio.gather(*map(candidate.first_tokens, conversations)))
    except (EndpointError, *MALFORMED):
        return []


def _set_aside_note(name: str, what: str, why: str) -> str:
    return (
        f"{name} is not what it was: {why}. All {what} that were stored of it are set aside, and "
        "are asked for again"
    )


# The judges.


def _judges(parts: Parts) -> Iterator[Judge]:
    """All judges of a run, those included that write reasons for another."""
    for by_benchmark in (parts.judges, *parts.repeats):
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


async def _judge(panel: Sequence[Judge], parts: Parts, store: Store, say: Say) -> str:
    """What to tell the user if the verdicts of a model are set aside, else nothing.

    ``panel`` is the model's judges: one for each way of judging.
    """
    name = panel[0].name
    checked = list(_checked(panel, parts, store))
    others = list(islice(_judged(panel, parts, store), REPEATED))
    exchanges = checked + others
    if not exchanges:
        return ""
    verdicts = count(len(exchanges), "stored verdict")
    say(f"asking judge {name} again for {verdicts}, {len(checked)} of its check: {_WHY}")
    said: dict[str, Judgement] = {}

    async def ask(one: _Exchange) -> list[Judgement | None]:
        verdict = await one.judge.judge(one.prompt, one.answer)
        if isinstance(verdict, Invalid) and verdict.reason is Reason.JUDGE_ERROR:
            return [None]
        return [said.setdefault(one.key, verdict)]

    stored = [[one.verdict] for one in exchanges]
    repetition = await _repeated(exchanges, stored, ask, _agreement, f"judge {name}")
    unlike, has_changed = repetition.differing(_agreement)
    if has_changed:
        store.renew(panel[0].model_identity)
        why = (
            f"{unlike} of {count(len(repetition.stored), 'verdict')} that were asked for again "
            "differ by more than its own repeats do"
        )
        return _set_aside_note(f"judge {name}", "verdicts", why)
    keys = {one.key for one in checked} & said.keys()
    now = {key: verdict for key in keys if not isinstance(verdict := said[key], Invalid)}
    with store.transaction():
        store.forget_judgements(keys)
        store.add_judgements(now)
    return ""


def _agreement(one: Judgement, other: Judgement) -> float:
    return float(one.verdict == other.verdict)


def _checked(panel: Sequence[Judge], parts: Parts, store: Store) -> Iterator[_Exchange]:
    """The exchanges of the judge's checks whose verdicts are stored."""
    for name, asked in parts.judges.items():
        judges = [judge for judge in asked if judge in panel]
        if not judges or not panels.is_check(name):
            continue
        prompts, recorded = panels.exchanges(name)
        known = recorded.known(prompts, store)
        exchanges = [(prompt, known[key]) for prompt in prompts for key in recorded.keys(prompt)]
        for judge in judges:
            yield from _stored_verdicts(judge, exchanges, store)


def _judged(panel: Sequence[Judge], parts: Parts, store: Store) -> Iterator[_Exchange]:
    """Exchanges of the run whose verdicts are stored, each prompt's first answer, by chance."""
    prompts = [(name, prompt) for name, several in parts.plan.items() for prompt in several]
    for name, prompt in random.sample(prompts, min(LOOKED_AT, len(prompts))):
        judges = [judge for judge in parts.judges[name] if judge in panel]
        answers = parts.candidate.known([prompt], store) if judges else {}
        exchanges = [
            as_judged(prompt, answer)
            for answer in islice(answers.values(), 1)
            if unusable(answer, parts.candidate.max_tokens) is None
        ]
        for judge in judges:
            yield from _stored_verdicts(judge, exchanges, store)


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
    stored: Sequence[Sequence[Said]],
    ask: Callable[[Item], Awaitable[Sequence[Said | None]]],
    likeness: Callable[[Said, Said], float],
    name: str,
) -> Repetition[Said]:
    """Ask for items again, and once more if the server does not say what is stored.

    ``ask`` gives as much for an item as is stored of it; None is what the server failed to say.
    """
    free = asyncio.Semaphore(AT_ONCE)

    async def asked(item: Item, size: int) -> Sequence[Said | None]:
        async with free:
            with suppress(EndpointError):
                return await ask(item)
        return [None] * size

    old = list(chain.from_iterable(stored))
    rounds: list[list[Said | None]] = []
    for _ in range(2):
        several = await asyncio.gather(*map(asked, items, map(len, stored)))
        said = list(chain.from_iterable(several))
        rounds.append(said)
        failed = said.count(None)
        if 2 * failed > len(old):
            raise ModelError(
                f"{name}: run the same command again once its server answers, or use what is "
                f"stored as it is with --stored-only: it gave none in place of {failed} of "
                f"{len(old)} stored answers"
            )
        pairs = zip(old, said, strict=True)
        if all(new is None or likeness(before, new) == 1 for before, new in pairs):
            break
    complete = [row for row in zip(old, *rounds, strict=True) if None not in row]
    return Repetition(*zip(*complete, strict=True)) if complete else Repetition((), ())
