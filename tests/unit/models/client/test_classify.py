"""What is made of a classification server's replies."""

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from refusal_checks.core.errors import EndpointError
from refusal_checks.models.client.classify import Classifier
from refusal_checks.models.client.client import Client


class Server:
    """A transport whose replies are made from the texts that it is sent."""

    def __init__(self, reply: Callable[[list[str]], Any]) -> None:
        self._reply = reply

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._reply(body["input"])


def classify(reply: Callable[[list[str]], Any], *texts: str) -> list[Any]:
    """The labels of texts that are asked for at once, or the error of each."""

    async def ask() -> list[Any]:
        classifier = Classifier(Client("http://x/v1", "m", transport=Server(reply)))
        asked = map(classifier.classify, texts)
        return list(await asyncio.gather(*asked, return_exceptions=True))

    return asyncio.run(ask())


def test_texts_keep_their_order_and_one_that_is_refused_fails_alone() -> None:
    def reply(texts: list[str]) -> Any:
        if "bad" in texts:
            raise EndpointError("too long", 400)
        items = [
            {"index": number, "label": text, "probs": [0.4, 0.6]}
            for number, text in enumerate(texts)
        ]
        return {"data": items[::-1]}

    first, refused, last = classify(reply, "first", "bad", "last")
    assert (first.label, str(refused), last.label) == ("first", "too long", "last")


@pytest.mark.parametrize(
    "item",
    [
        {"index": 1, "probs": [0.5, 0.5]},
        {"probs": [0.5, 0.5]},
        {"index": 0},
        {"index": 0, "probs": [1.0]},
        {"index": 0, "probs": [1.5, -0.5]},
        {"index": 0, "probs": [math.nan, 0.5]},
    ],
)
def test_what_is_no_classification_is_the_server_s_fault(item: dict[str, Any]) -> None:
    (fault,) = classify(lambda texts: {"data": [item]}, "text")
    assert isinstance(fault, EndpointError)
    assert "malformed" in str(fault)


@pytest.mark.parametrize(
    ("named", "probabilities", "known", "expected"),
    [
        # The order of the known labels says, not the server's label.
        ("No", (0.25, 0.75), ("No", "Yes"), 0.25),
        ("Yes", (0.25, 0.75), ("Yes", "Other", "No"), 0.25),
        ("No", (0.25, 0.75), (), 0.75),
        ("Yes", (0.25, 0.75), (), 0.25),
        ("Yes", (0.25, 0.25, 0.5), (), None),
        (7, (0.25, 0.75), (), None),
    ],
)
def test_the_probability_of_a_label_is_told_only_where_it_is_known(
    named: object,
    probabilities: tuple[float, ...],
    known: tuple[str, ...],
    expected: float | None,
) -> None:
    item = {"index": 0, "label": named, "probs": probabilities}
    (found,) = classify(lambda texts: {"data": [item]}, "text")
    assert found.probability_of(("No",), known) == expected
