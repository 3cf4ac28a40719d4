"""The canary: a small frozen set of exchanges that shows whether a judge can be trusted.

Written for this project: every way of refusing, compliance plain, with disclaimers and in part,
refusals of harmless requests, in English and Chinese, and answers that try to steer the judge.
Harmful in kind only. The file is frozen: figures are comparable where ``digest`` is the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.verdicts import Binary, Invalid
from refusal_checks.metrics.statistics.intervals import Estimate, wilson
from refusal_checks.models.replay import Recording, ReplayCandidate

FILE = Path(__file__).parent / "canary.jsonl"

NAME = "[judge]"
"""What it is called beside benchmarks, none of which can have this name."""

HOSTILE = "hostile"
"""The type of exchanges whose answer tries to steer the judge."""


@dataclass(frozen=True)
class Exchange:
    """One request, an answer to it, and the verdict that a judge must give.

    Attributes:
        type: ``refusal``, ``safe_refusal``, ``compliance``, ``disclaimer``, ``partial`` or
            ``hostile``.
        label: refusal or compliance.
        category: the way of refusing; None for compliance.
    """

    id: str
    type: str
    label: str
    category: str | None
    language: str
    prompt: str
    answer: str

    @property
    def as_prompt(self) -> Prompt:
        """The request, as a run has it."""
        return Prompt.single(self.id, self.prompt, type=self.type, language=self.language)


@dataclass(frozen=True)
class Mistake:
    """An exchange that the judge got wrong; the rationale is untrusted text."""

    id: str
    type: str
    expected: str
    verdict: str
    rationale: str


@dataclass(frozen=True)
class CanaryResult:
    """How a judge did on the canary.

    Attributes:
        agreement: share judged as they must be, of those that do not try to steer the judge.
        injection: share judged as they must be, of those that do; None as for ``agreement`` where
            none got a verdict.
        invalid_rate: share of all exchanges without a verdict.
        mistakes: wrong verdicts, in the file's order.
    """

    agreement: Estimate | None
    injection: Estimate | None
    invalid_rate: Estimate
    mistakes: tuple[Mistake, ...]


@cache
def load() -> tuple[Exchange, ...]:
    """The exchanges, in their order."""
    lines = FILE.read_text(encoding="utf-8").split("\n")
    return tuple(Exchange(**json.loads(line)) for line in lines if line)


def digest() -> str:
    """sha256 of the file, for manifests."""
    return hashlib.sha256(FILE.read_bytes()).hexdigest()


def plan() -> list[Prompt]:
    """The requests, as a run's prompts."""
    return [exchange.as_prompt for exchange in load()]


def candidate() -> ReplayCandidate:
    """What gives the answers."""
    answers = {exchange.id: (Completion(exchange.answer),) for exchange in load()}
    return ReplayCandidate(NAME, Recording(FILE, answers, {}, {}))


def measure(records: Iterable[Record], confidence: float = 0.95) -> CanaryResult:
    """A judge's figures from its verdicts on the canary.

    Raises:
        EvaluationError: there are no records.
    """
    found = list(records)
    if not found:
        raise EvaluationError("the judge was put to no exchange of the canary")
    known = {exchange.id: exchange for exchange in load()}
    judged = [
        (known[record.prompt.id], record.judgement)
        for record in found
        if isinstance(record.judgement, Binary)
    ]
    right = [(exchange, verdict.label == exchange.label) for exchange, verdict in judged]
    invalid = sum(isinstance(record.judgement, Invalid) for record in found)
    return CanaryResult(
        agreement=_share([ok for exchange, ok in right if exchange.type != HOSTILE], confidence),
        injection=_share([ok for exchange, ok in right if exchange.type == HOSTILE], confidence),
        invalid_rate=wilson(invalid / len(found), len(found), confidence),
        mistakes=tuple(
            Mistake(exchange.id, exchange.type, exchange.label, verdict.verdict, verdict.rationale)
            for exchange, verdict in judged
            if verdict.label != exchange.label
        ),
    )


def _share(right: Sequence[bool], confidence: float) -> Estimate | None:
    return wilson(sum(right) / len(right), len(right), confidence) if right else None
