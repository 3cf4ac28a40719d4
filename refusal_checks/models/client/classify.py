"""Label probabilities of sequence classifiers, from vLLM's ``/classify``."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import fsum
from typing import Any

from refusal_checks.core.errors import EndpointError
from refusal_checks.models.client.client import Client
from refusal_checks.models.client.server_errors import TransientError

CLASSIFY = "/../classify"  # on vLLM, beside ``/v1`` and not below it
MOST = 64  # texts of one request
AT_ONCE = 2  # requests: while the engine reads one batch, the next one is on its way


@dataclass(frozen=True)
class Classification:
    """A text's most probable label, and the probabilities of all labels in order."""

    label: str | None
    probabilities: tuple[float, ...]

    def probability_of(
        self, wanted: Sequence[str | int], labels: Sequence[str]
    ) -> float | None:
        """The probability of some labels together; None if nothing tells where they stand.

        Args:
            wanted: at least one, and not all; by name or place.
            labels: all of them in order; empty if only the server knows them.
        """
        count = len(self.probabilities)
        if not labels or len(labels) == count:
            places = [labels.index(it) if it in labels else it for it in wanted]
            numbers = {it for it in places if isinstance(it, int) and it < count}
            if len(numbers) == len({*places}):
                return fsum(self.probabilities[number] for number in numbers)
        # Of two labels, the more probable one has a name, and the other has not.
        if count > 2 or len(wanted) > 1 or not self.label or isinstance(wanted[0], int):
            return None
        most = max(self.probabilities)
        return most if self.label in wanted else 1 - most


class Classifier:
    """Asks a client's server for labels.

    All texts that wait when a request can be sent share it, so batches grow with the load, and no
    text waits for a batch to fill.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._waiting: list[tuple[str, asyncio.Future[Classification]]] = []
        self._senders: set[asyncio.Task[None]] = set()

    async def classify(self, text: str) -> Classification:
        """Classify a text; PromptTooLongError if it does not fit the model's context."""
        future: asyncio.Future[Classification] = (
            asyncio.get_running_loop().create_future()
        )
        self._waiting.append((text, future))
        if len(self._senders) < AT_ONCE:
            sender = asyncio.create_task(self._send())
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)
        return await future

    async def _send(self) -> None:
        await asyncio.sleep(0)  # so that what is asked in the same step goes along
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            results = await self._ask([text for text, _ in batch])
            for (_, future), result in zip(batch, results, strict=True):
                if future.done():  # its asker has been cancelled
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)

    async def _ask(self, texts: Sequence[str]) -> Sequence[Classification | Exception]:
        try:
            read = partial(_read, count=len(texts))
            return await self._client.post(CLASSIFY, {"input": texts}, read)
        except Exception as fault:
            is_refusal = isinstance(fault, EndpointError)
            may_pass = isinstance(fault, TransientError)
            if not is_refusal or may_pass or len(texts) == 1:
                return [fault] * len(texts)
        # One of the texts is at fault; the others are not to fail with it.
        results: list[Classification | Exception] = []
        for text in texts:
            results += await self._ask([text])
        return results


def _read(response: Any, count: int) -> list[Classification]:
    items = sorted(response["data"], key=lambda item: int(item["index"]))
    # A missing text must not get its neighbour's label.
    if [item["index"] for item in items] != list(range(count)):
        raise ValueError(f"{len(items)} classifications of {count} texts")
    results = []
    for item in items:
        probabilities = tuple(float(value) for value in item["probs"])
        are_shares = all(0 <= value <= 1 for value in probabilities)
        if len(probabilities) < 2 or not are_shares:
            raise ValueError("no probabilities of two labels or more")
        label = item.get("label")
        if not isinstance(label, str):
            label = None
        results.append(Classification(label, probabilities))
    return results
