"""Keys and seeds of sampled answers, and what reaches the server for them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.core.judgements import Invalid
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.sampling import Sampling
from refusal_checks.io.store import Store
from refusal_checks.models.candidates import Answer, ServedCandidate, answer_seed
from refusal_checks.models.client.client import Client
from refusal_checks.models.model_names import Replay
from refusal_checks.models.recordings.recording import ReplayCandidate
from refusal_checks.models.recordings.recording_file import read_recording
from tests.support.fake_server import FakeServer

PROMPT = Prompt.single("p1", "what is it?")
DIALOGUE = Prompt(
    "p2", (Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
)


def served(
    sampling: Sampling,
    identity: str = "model",
    *,
    weighs: bool = False,
) -> ServedCandidate:
    client = Client("http://x/v1", "fake")
    return ServedCandidate("name", client, sampling, identity, weighs=weighs)


def ask(
    server: FakeServer,
    sampling: Sampling,
    first: int,
    count: int,
    prompt: Prompt = PROMPT,
    *,
    weighs: bool = False,
) -> Sequence[Answer]:
    async def run() -> Sequence[Answer]:
        async with Client(server.url, "fake") as client:
            own = ServedCandidate("name", client, sampling, "model", weighs=weighs)
            return await own.answer(prompt, first, count)

    return asyncio.run(run())


CHANGES: dict[str, Any] = {
    "temperature": 0.1,
    "top_p": 0.5,
    "top_k": 1,
    "max_tokens": 9,
    "seed": 1,
    "stop": ("END",),
    "system_prompt": "Be kind.",
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
    changes.append(served(Sampling(), weighs=True).keys(PROMPT))
    assert served(Sampling(samples=1), weighs=True).keys(PROMPT) == base[:1], (
        "a single answer is not weighed"
    )
    for changed in changes:
        assert not set(changed) & set(base)


def test_keys_stay_what_they_are() -> None:
    """Another key asks every user's model for all answers again."""
    prompt = Prompt.single("p", "How?")
    several = Sampling(
        samples=2, max_tokens=512, seed=7, stop=("END",), system_prompt="Be kind."
    )
    stem = "f247eecc5d3d62c921cb5fb8eeb42e2f"
    assert served(several).keys(prompt) == [f"{stem}-0", f"{stem}-1"]
    more = several.model_copy(update={"samples": 7})
    assert served(more).keys(prompt)[:2] == served(several).keys(prompt), "K can grow"
    assert served(several, weighs=True).keys(prompt) == [
        f"c33cc7b2851b2d567547bd4e28dca500-{sample}" for sample in range(2)
    ]
    assert served(Sampling(samples=1)).keys(prompt) == [
        "dedec8c9281b53b0d520b40a270f9cfb-0"
    ]


@pytest.mark.parametrize("how", ["refuses", "ignores"])
def test_a_server_without_n_is_asked_for_the_rest_one_by_one(how: str) -> None:
    with FakeServer(**{how: ["n"]}) as server:  # type: ignore[arg-type]
        alone = ask(server, Sampling(samples=4), 1, 3)
    seeds = [answer_seed(0, PROMPT, sample) for sample in (1, 2, 3)]
    assert sorted(body["seed"] for body in server.requests)[-3:] == seeds
    assert len(server.requests) == (4 if how == "refuses" else 3)
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


@pytest.mark.parametrize(
    ("count", "weighs", "refuses", "asked"),
    [
        (1, False, "", []),
        (2, True, "", ["logprobs"]),
        (2, False, "", ["return_token_ids"]),
        (2, False, "return_token_ids", []),
        (2, True, "logprobs", []),
    ],
)
def test_log_probabilities_are_asked_for_with_answers_that_they_weigh(
    count: int, weighs: bool, refuses: str, asked: list[str]
) -> None:
    with FakeServer(lambda body: ["one two"] * count, refuses=[refuses]) as server:
        answers = ask(server, Sampling(samples=count), 0, count, weighs=weighs)
    *refused, request = server.requests
    assert len(refused) == bool(refuses)
    fields = ("logprobs", "return_token_ids")
    assert [name for name in fields if name in request] == asked
    for answer in answers:
        assert isinstance(answer, Completion)
        assert (answer.mean_logprob is not None) is ("logprobs" in asked)
        is_counted = asked or count == 1
        assert answer.tokens == (2 if is_counted else 0)


def test_a_recording_knows_all_its_answers(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("prompt,answer\nwhat is it?,one\nwhat is it?,two\n")
    candidate = ReplayCandidate(
        "replay", read_recording(Replay("replay", path), [PROMPT])
    )
    with Store(tmp_path / "store.sqlite") as store:
        known = candidate.stored_answers([PROMPT], store)
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
