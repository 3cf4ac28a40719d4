"""Options chosen by their letters' probabilities: what is asked for, kept and refused."""

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.core.errors import ModelError
from refusal_checks.core.judgements import Chosen, Reason
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.sampling import Sampling
from refusal_checks.io.store import Store
from refusal_checks.judges.kinds.multiple_choice import choose
from refusal_checks.models.candidates import Answer, OptionScorer, ServedCandidate
from refusal_checks.models.client.client import Client
from tests.support.fake_server import FakeServer

OPTIONS = {"A": "甲", "B": "乙", "C": "丙"}
QUESTION = Prompt("1", (Message("user", "问？\nA. 甲\nB. 乙\nC. 丙"),), options=OPTIONS)
RISKY = Prompt.single("p1", "what is it?")


def scorer(client: Client, identity: str = "model", **sampling: Any) -> OptionScorer:
    return OptionScorer("name", client, Sampling(**sampling), identity)


def ask(server: FakeServer) -> list[Any]:
    async def answer() -> list[Answer]:
        async with Client(server.url, "fake") as client:
            return list(await scorer(client).answer(QUESTION, 0, 1))

    return asyncio.run(answer())


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"我": 0.6, "B": 0.3, "A": 0.1}, "B\nA 0.2500, B 0.7500, C 0.0000; outside 0.6000"),
        ({"C": 0.3, "A": 0.1, "D": 0.6}, "C\nA 0.2500, B 0.0000, C 0.7500; outside 0.6000"),
    ],
)  # fmt: skip
def test_the_most_probable_letter_is_the_answer(
    given: dict[str, float], told: str
) -> None:
    with FakeServer(tokens=lambda body: given) as server:
        (found,) = ask(server)
    assert found.text.startswith(told)
    assert found.mean_logprob == pytest.approx(math.log(0.75))
    chosen = choose(found.text, OPTIONS, told[0])
    assert chosen == Chosen(told[0], True, "the most probable letter")
    (body,) = server.requests
    assert body["messages"] == [{"role": "user", "content": QUESTION.request}]
    assert server.tokenized == ["A", "B", "C"]


def test_no_letter_is_chosen_where_none_can_be_seen() -> None:
    with FakeServer(tokens=lambda body: {"我": 1.0}, tokenizer=False) as server:
        (found,) = ask(server)
    assert found.in_words == Reason.NO_OPTION
    assert "outside 1.0000" in found.detail


def test_a_server_without_probabilities_is_named_with_the_remedy() -> None:
    with (
        FakeServer() as server,
        pytest.raises(ModelError, match=r"use --set multiple_choice\.scoring=text"),
    ):
        ask(server)


def test_a_question_has_one_answer_whatever_the_sampling(tmp_path: Path) -> None:
    client = Client("", "fake")
    (key,) = scorer(client).keys(QUESTION)
    assert scorer(client, samples=1, temperature=1).keys(QUESTION) == [key]
    assert scorer(client, "other").keys(QUESTION) != [key]
    in_words = ServedCandidate("name", client, Sampling(), "model")
    assert key not in in_words.keys(QUESTION)
    assert scorer(client).keys(RISKY) == in_words.keys(RISKY)
    with Store(tmp_path / "store.sqlite") as store:
        store.add_completions({key: Completion("A")})
        stored = scorer(client).stored_answers([QUESTION], store)
    assert stored == {key: Completion("A")}


def test_an_error_of_the_server_is_an_invalid_answer() -> None:
    with FakeServer(tokens=lambda body: {"A": 1.0}, faults=[400]) as server:
        (found,) = ask(server)
    assert found.in_words == Reason.ENGINE_ERROR
