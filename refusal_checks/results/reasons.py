"""Of which answers a judge was asked for its reasons, where it gives verdicts alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from refusal_checks.core.records import Record
from refusal_checks.core.store import content_key
from refusal_checks.core.verdicts import Binary

SHARE = 0.05
"""Share of a benchmark's answers that are drawn at random, whatever their verdicts are."""

LEAST = 20
"""Fewest answers drawn."""


@dataclass(frozen=True)
class Reasons:
    """Of which answers to a benchmark judges were asked for their reasons (``--rationales``).

    A judge that writes its reasons first may give another verdict; the first one stays. How often
    that is so in the sample says how far its two ways agree on these answers.

    Attributes:
        answers: how many have a verdict.
        asked: of these, how many its reasons were wanted of: those that reports show, and the
            sample.
        sampled: size of the sample, by which ways of refusing are counted.
        given: how many of its verdicts have reasons; several judges count each.
        agree: of these, how many reasons come with the same verdict.
        missing: of all verdicts whose reasons were wanted, how many have none: the judge failed,
            or it was not asked because its verdicts were stored and nothing else was left to ask.
        contradicted: how many reasons, of all, come with another verdict.
    """

    answers: int
    asked: int
    sampled: int
    given: int
    agree: int
    missing: int
    contradicted: int


@dataclass(frozen=True)
class Sampled:
    """The sample of a benchmark's answers: its records with reasons, and what they tell."""

    reasons: Reasons
    records: tuple[Record, ...]


def sample(benchmark: str, records: Sequence[Record]) -> list[Record]:
    """The answers of which a judge is asked for its reasons in any case.

    They are the first in an order that the benchmark's name, the prompts' ids and the answers'
    numbers give, so that another run draws the same.
    """
    judged = [record for record in records if isinstance(record.judgement, Binary)]
    count = max(LEAST, math.ceil(SHARE * len(judged)))

    def place(record: Record) -> str:
        return content_key("order of reasons", benchmark, record.prompt.id, record.sample)

    return sorted(judged, key=place)[:count]
