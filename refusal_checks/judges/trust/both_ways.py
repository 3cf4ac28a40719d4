"""A judge measured with its reasons first and with the verdict alone (``--rationales``)."""

from __future__ import annotations

from dataclasses import dataclass

from refusal_checks.metrics.statistics.intervals import Estimate


@dataclass(frozen=True)
class Way:
    """One way of judging all exchanges.

    Attributes:
        written, read: tokens that the judge wrote and read for a verdict, on average, a second
            attempt included; of those read, the ones in a prefix cache are left out.
        seconds: that all verdicts took.
        correct: share of the canary's exchanges that are judged as labelled, of those judged.
        invalid: exchanges without a verdict.
    """

    written: float
    read: float
    seconds: float
    correct: Estimate | None
    invalid: int


@dataclass(frozen=True)
class Difference:
    """An exchange that the two ways judge differently; its reasons are untrusted text."""

    source: str
    prompt: str
    first: str
    alone: str
    reasons: str


@dataclass(frozen=True)
class BothWays:
    """A judge measured in both ways.

    Attributes:
        first: with its reasons first; alone: without.
        agreement: by source (the canary, or a file), share of the exchanges with two verdicts on
            which these are equal; None without any.
    """

    judge: str
    first: Way
    alone: Way
    agreement: dict[str, Estimate | None]
    differences: tuple[Difference, ...]
