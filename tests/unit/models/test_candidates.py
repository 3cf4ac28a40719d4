"""Keys and seeds of sampled answers, and what reaches the server for them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.sampling import Sampling
from refusal_checks.core.store import Store
from refusal_checks.core.verdicts import Invalid
from refusal_checks.models.candidates import Answer, ServedCandidate, answer_seed
from refusal_checks.models.client.capabilities import ALL, Capabilities, Support
from refusal_checks.models.client.client import Client, _parts
from refusal_checks.models.recordings.recording import ReplayCandidate
from refusal_checks.models.recordings.replay import read
from tests.fake_server import FakeServer

T = TypeVar("T")

PROMPT = Prompt.single("p1", "what is it?")
DIALOGUE = Prompt(
    "p2", (Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
)


def served(
    sampling: Sampling, identity: str = "model", capabilities: Capabilities = ALL
) -> ServedCandidate:
    client = Client("http://x/v1", "fake", capabilities=capabilities)
    return ServedCandidate("name", client, sampling, identity)


def using(
    server: FakeServer,
    sampling: Sampling,
    use: Callable[[ServedCandidate], Awaitable[T]],
    capabilities: Capabilities = ALL,
) -> T:
    """What comes of using a candidate on a server."""

    async def run() -> T:
        async with Client(server.url, "fake", capabilities=capabilities) as client:
            return await use(ServedCandidate("name", client, sampling, "model"))

    return asyncio.run(run())


def ask(
    server: FakeServer,
    sampling: Sampling,
    first: int,
    count: int,
    capabilities: Capabilities = ALL,
    prompt: Prompt = PROMPT,
) -> Sequence[Answer]:
    return using(
        server, sampling, lambda own: own.answer(prompt, first, count), capabilities
    )


CHANGES: dict[str, Any] = {
    "temperature": 0.1,
    "top_p": 0.5,
    "top_k": 1,
    "max_tokens": 9,
    "seed": 1,
    "stop": ("END",),
    "system_prompt": "Be kind.",
    "logprobs": "never",
}


def test_a_key_changes_with_all_that_an_answer_depends_on() -> None:
    base = served(Sampling()).keys(PROMPT)
    changes: list[Sequence[str]] = [
        served(Sampling(), "other").keys(PROMPT),
        served(Sampling()).keys(DIALOGUE),
        *(
            served(Sampling(**{name: value})).keys(PROMPT)
            for name, value in CHANGES.items()
        ),
    ]
    assert {*CHANGES, "samples"} == set(Sampling.model_fields)
    assert served(Sampling(logprobs="always")).keys(PROMPT) == base, (
        "the same answers and weights"
    )
    for changed in changes:
        assert not set(changed) & set(base)


def test_keys_stay_what_they_are() -> None:
    """Another key asks every user's model for all answers again."""
    prompt = Prompt.single("p", "How?")
    several = Sampling(
        samples=2, max_tokens=512, seed=7, stop=("END",), system_prompt="Be kind."
    )
    stem = "c33cc7b2851b2d567547bd4e28dca500"
    assert served(several).keys(prompt) == [f"{stem}-0", f"{stem}-1"]
    more = several.model_copy(update={"samples": 7})
    assert served(more).keys(prompt)[:2] == served(several).keys(prompt), "K can grow"
    assert served(Sampling(samples=1)).keys(prompt) == [
        "dedec8c9281b53b0d520b40a270f9cfb-0"
    ]


def test_answers_one_by_one_have_the_keys_and_seeds_of_answers_at_once() -> None:
    one_by_one = Capabilities(n=Support.REFUSED)
    assert served(Sampling(), capabilities=one_by_one).keys(PROMPT) == served(
        Sampling()
    ).keys(PROMPT)
    with FakeServer(refuses=["n"]) as server:
        alone = ask(server, Sampling(samples=4), 1, 3, one_by_one)
    seeds = [answer_seed(0, PROMPT, sample) for sample in (1, 2, 3)]
    assert sorted(body["seed"] for body in server.requests) == seeds
    with FakeServer() as server:
        together = ask(server, Sampling(samples=4), 1, 3)
    assert [getattr(a, "text", None) for a in alone] == [
        getattr(a, "text", 0) for a in together
    ]


def test_greedy_answers_are_asked_for_one_by_one_and_only_the_failed_is_invalid() -> (
    None
):
    with FakeServer(faults=[400]) as server:
        found = ask(server, Sampling(temperature=0.0), 0, 3)
    assert [body["n"] for body in server.requests] == [1, 1, 1]
    kinds = [type(answer) for answer in found]
    assert (kinds.count(Completion), kinds.count(Invalid)) == (2, 1)


UNSCORED = Capabilities(scoring=Support.IGNORED)


@pytest.mark.parametrize(
    ("samples", "when", "capabilities", "asked"),
    [
        (1, "always", ALL, []),
        (2, "always", ALL, ["logprobs"]),
        (2, "disputed", ALL, ["return_token_ids"]),
        (2, "disputed", UNSCORED, ["logprobs"]),
        (2, "never", ALL, ["return_token_ids"]),
        (
            2,
            "always",
            Capabilities(logprobs=Support.REFUSED, scoring=Support.REFUSED),
            [],
        ),
    ],
)
def test_log_probabilities_are_asked_for_where_they_weigh_answers(
    samples: int, when: Any, capabilities: Capabilities, asked: list[str]
) -> None:
    with FakeServer() as server:
        sampling = Sampling(samples=samples, logprobs=when)
        (answer,) = ask(server, sampling, 0, 1, capabilities)
    fields = ("logprobs", "return_token_ids")
    assert [name for name in fields if name in server.requests[0]] == asked
    assert isinstance(answer, Completion)
    assert (answer.mean_logprob is not None) is ("logprobs" in asked)
    assert bool(answer.token_ids) is (when == "disputed" and "logprobs" not in asked)
    assert answer.tokens == len(answer.text.split()), (
        "counted with them, or by the server"
    )


@pytest.mark.parametrize(
    "said", ["one two", {"reasoning": "hm hm", "content": "one two"}]
)
def test_an_answer_weighs_the_same_while_it_is_written_and_afterwards(
    said: Any,
) -> None:
    async def scored(candidate: ServedCandidate) -> Mapping[str, Completion]:
        answers = await candidate.answer(PROMPT, 0, 3)
        whole = {str(n): a for n, a in enumerate(answers) if isinstance(a, Completion)}
        return await candidate.score_logprobs(PROMPT, whole)

    with FakeServer(lambda body: [said] * 3) as server:
        before = ask(server, Sampling(samples=3, logprobs="always"), 0, 3)
        after = using(server, Sampling(samples=3), scored)
    assert list(after.values()) == list(before)
    assert [answer.mean_logprob for answer in after.values()] == [-0.5, -1.0, -1.5]
    (request,) = server.scored
    assert request["prompt_logprobs"] == 0
    assert len(request["prompt"]) == 3


def test_stored_answers_are_scored_after_their_prompt_is_asked_for() -> None:
    async def scored(candidate: ServedCandidate) -> Mapping[str, Completion]:
        answers = await candidate.answer(PROMPT, 0, 3)
        whole = {str(n): a for n, a in enumerate(answers) if isinstance(a, Completion)}
        await candidate.score_logprobs(PROMPT, whole)
        return await candidate.score_logprobs(PROMPT, whole)

    with FakeServer() as server:
        using(server, Sampling(samples=3), scored)
    first, conversation, again = server.scored
    assert conversation["messages"] == [{"role": "user", "content": PROMPT.request}]
    assert again == first


@pytest.mark.parametrize(("context", "sent"), [(5, 4), (6, 5)])
def test_the_last_token_of_a_full_context_is_not_scored(
    context: int, sent: int
) -> None:
    """A prompt of three tokens, an answer of two that may have ended by itself."""

    async def scored(candidate: ServedCandidate) -> None:
        (answer,) = await candidate.answer(PROMPT, 0, 1)
        assert isinstance(answer, Completion)
        candidate._client.context = context
        await candidate.score_logprobs(PROMPT, {"0": answer})

    with FakeServer(lambda body: ["one two"]) as server:
        using(server, Sampling(samples=2), scored)
    assert [len(ids) for ids in server.scored[0]["prompt"]] == [sent]


def test_long_answers_are_scored_in_several_requests() -> None:
    parts = _parts([5000, 3000, 200, 9000, 10, 10])
    assert [list(part) for part in parts] == [[0, 1], [2], [3], [4, 5]]
    assert _parts([]) == []


def test_a_server_that_tells_no_tokens_is_asked_for_log_probabilities_from_then_on() -> (
    None
):
    async def answers(candidate: ServedCandidate) -> list[Answer]:
        first = await candidate.answer(PROMPT, 0, 2)
        return [*first, *await candidate.answer(DIALOGUE, 0, 2)]

    with FakeServer(ignores=["return_token_ids"]) as server:
        given = using(server, Sampling(samples=2), answers)
    weights = [isinstance(a, Completion) and a.mean_logprob for a in given]
    assert weights == [-0.5, -1.0] * 2
    assert ["logprobs" in body for body in server.requests] == [False, True, True]


def test_what_a_server_lacks_is_told_where_it_matters() -> None:
    nothing = Capabilities(*[Support.REFUSED] * 5)
    told = served(Sampling(samples=5, top_k=20), capabilities=nothing).remarks
    for word in ("one answer", "weigh", "top_k"):
        assert any(word in line for line in told)
    assert len(told) == 4
    assert len(served(Sampling(samples=1, top_k=0), capabilities=nothing).remarks) == 1
    assert served(Sampling()).remarks == ()


def test_a_recording_knows_all_its_answers(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("prompt,answer\nwhat is it?,one\nwhat is it?,two\n")
    candidate = ReplayCandidate("replay", read(path))
    with Store(tmp_path / "store.sqlite") as store:
        known = candidate.known([PROMPT], store)
    assert [known[key].text for key in candidate.keys(PROMPT)] == ["one", "two"]
    assert [a.text for a in asyncio.run(candidate.answer(PROMPT, 1, 1)) if a] == ["two"]


def test_a_system_prompt_comes_first_and_joins_the_prompts_own() -> None:
    sampling = Sampling(samples=1, system_prompt="Be kind.")
    own = Prompt("p3", (Message("system", "Be brief."), Message("user", "a")))
    with FakeServer() as server:
        for prompt in (PROMPT, own):
            ask(server, sampling, 0, 1, prompt=prompt)
    sent = [[tuple(turn.values()) for turn in b["messages"]] for b in server.requests]
    assert sent == [
        [("system", "Be kind."), ("user", "what is it?")],
        [("system", "Be kind.\n\nBe brief."), ("user", "a")],
    ]
