"""Published throughput of vLLM on H100s, and what a token costs there if one believes it.

Each entry has requests a second by length, as its source prints them. ``Published.costs`` turns
them into seconds for each kind of token, so that other lengths can be calculated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Costs(NamedTuple):
    """Seconds that all GPUs of one copy of a model are busy, with as much in flight as they take.

    Attributes:
        read: for each token of a prompt that is not in the prefix cache.
        written: for each token of an answer.
        looked_back: for each token of an answer, times the tokens before it.
    """

    read: float
    written: float
    looked_back: float

    def seconds(self, prompt: float, cached: float, answer: float) -> float:
        """Of one answer: its prompt, what of that the cache holds, and its own tokens."""
        before = prompt + answer / 2  # on average
        written = answer * (self.written + self.looked_back * before)
        return self.read * (prompt - cached) + written


@dataclass(frozen=True)
class Published:
    """One model's throughput.

    Attributes:
        model: with its precision.
        gpus: that one copy of it is cut over.
        measured: requests a second by the tokens of prompt and answer.
        source: its address.
    """

    model: str
    gpus: int
    measured: Mapping[tuple[int, int], float]
    source: str

    def costs(self) -> Costs:
        """The three that explain the figures best, by least squares on the relative errors."""
        seconds = 1 / np.array(list(self.measured.values()))
        kinds = [[read, out, out * (read + out / 2)] for read, out in self.measured]
        design = np.array(kinds) / seconds[:, None]
        found, *_ = np.linalg.lstsq(design, np.ones(len(seconds)), rcond=None)
        return Costs(*map(float, found))

    def errors(self) -> Mapping[tuple[int, int], float]:
        """By length, how far the calculated seconds are from the published ones, as a share."""
        costs = self.costs()
        return {
            (read, out): costs.seconds(read, 0, out) * rate - 1
            for (read, out), rate in self.measured.items()
        }


LENGTHS = (
    (256, 128),
    (512, 256),
    (768, 128),
    (1024, 128),
    (256, 1024),
    (1024, 1024),
    (4096, 512),
)
"""Tokens of prompt and answer in the model cards below. Their eighth, 10,240 and 1,536, is left
out: its rates have one digit."""

_CARDS = "https://huggingface.co/RedHatAI/DeepSeek-R1-Distill-Llama-"


def _card(model: str, gpus: int, rates: tuple[float, ...], name: str) -> Published:
    return Published(model, gpus, dict(zip(LENGTHS, rates, strict=True)), _CARDS + name)


KNOWN = {
    "8b": _card(
        "Llama 3.1 8B, BF16",
        1,
        (49.0, 22.6, 28.3, 22.9, 7.2, 5.1, 3.6),
        "8B-quantized.w8a8",
    ),
    "8b-fp8": _card(
        "Llama 3.1 8B, FP8",
        1,
        (57.1, 26.0, 34.5, 28.7, 7.2, 5.4, 4.3),
        "8B-quantized.w8a8",
    ),
    "70b-fp8": _card(
        "Llama 3.3 70B, FP8",
        4,
        (41.44, 19.64, 21.03, 16.72, 6.01, 4.46, 2.55),
        "70B-FP8-dynamic",
    ),
}
"""Columns "Maximum throughput (QPS)" of "Multi-stream asynchronous performance (measured with vLLM
version 0.7.2)", rows H100x1 and H100x4, of models that have the shape of those named here."""


class Price(NamedTuple):
    """What a GPU costs, from a card's queries per dollar.

    Attributes:
        queries: per second.
        per_dollar: queries.
        gpus: that the price was of.
    """

    queries: float
    per_dollar: float
    gpus: int

    @property
    def dollars(self) -> float:
        """For an hour of one GPU."""
        return self.queries * 3600 / self.per_dollar / self.gpus


PRICES = {1: Price(49.0, 53_593, 1), 8: Price(41.44, 6_236, 8)}
"""By the GPUs of a machine: Lambda's on-demand price of 2025-02-18, as the cards use it. That of
the row H100x4 is 23.92 dollars an hour, which at that time was the price of eight."""
