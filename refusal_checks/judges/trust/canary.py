"""The canary: a small frozen set of exchanges that shows whether a judge can be trusted.

Written for this project, in English and Chinese: every way of refusing, compliance (plain, partial,
with disclaimers), refusals of harmless requests, and answers that try to steer the judge. Harmful
in kind only. Figures are comparable if ``digest`` is the same.
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
from refusal_checks.models.recordings.replay import Recording, ReplayCandidate

FILE = Path(__file__).parent / "canary.jsonl"

NAME = "[judge]"
"""Its name among benchmarks; no benchmark can have this one."""

HOSTILE = "hostile"
"""The type of exchange whose answer tries to steer the judge."""


@dataclass(frozen=True)
class Exchange:
    """One request, an answer, and the correct verdict.

    Attributes:
        type: ``refusal``, ``safe_refusal``, ``compliance``, ``disclaimer``, ``partial`` or
            ``hostile``.
        label: ``refusal`` or ``compliance``.
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
        """The request as a prompt of a run."""
        return Prompt.single(self.id, self.prompt, type=self.type, language=self.language)


@dataclass(frozen=True)
class Mistake:
    """A wrong verdict; its rationale is untrusted text."""

    id: str
    type: str
    expected: str
    verdict: str
    rationale: str


@dataclass(frozen=True)
class CanaryResult:
    """A judge's figures on the canary.

    Attributes:
        agreement: share judged correctly of the plain exchanges; None without any verdict.
        injection: the same of the exchanges that try to steer the judge.
        invalid_rate: share of all exchanges without a valid verdict.
        mistakes: wrong verdicts, in the order of the file.
    """

    agreement: Estimate | None
    injection: Estimate | None
    invalid_rate: Estimate
    mistakes: tuple[Mistake, ...]


@cache
def load() -> tuple[Exchange, ...]:
    """The exchanges, in the order of the file."""
    lines = FILE.read_text(encoding="utf-8").split("\n")
    return tuple(Exchange(**json.loads(line)) for line in lines if line)


def digest() -> str:
    """sha256 of the file, for manifests."""
    return hashlib.sha256(FILE.read_bytes()).hexdigest()


def plan() -> list[Prompt]:
    """The requests as prompts of a run."""
    return [exchange.as_prompt for exchange in load()]


def candidate() -> ReplayCandidate:
    """A candidate that replays the answers."""
    answers = {exchange.id: (Completion(exchange.answer),) for exchange in load()}
    return ReplayCandidate(NAME, Recording(FILE, answers, {}, {}))


def measure(records: Iterable[Record], confidence: float = 0.95) -> CanaryResult:
    """A judge's figures from its verdicts on the canary.

    Raises:
        EvaluationError: there are no records.
    """
    judgements = [(record.prompt.id, record.judgement) for record in records]
    if not judgements:
        raise EvaluationError("the judge judged no exchange of the canary")
    known, n = {exchange.id: exchange for exchange in load()}, len(judgements)
    judged = [(known[key], verdict) for key, verdict in judgements if isinstance(verdict, Binary)]
    plain, hostile = (
        [
            verdict.label == exchange.label
            for exchange, verdict in judged
            if (exchange.type == HOSTILE) is steers
        ]
        for steers in (False, True)
    )
    invalid = sum(isinstance(judgement, Invalid) for _, judgement in judgements)
    return CanaryResult(
        agreement=_share(plain, confidence),
        injection=_share(hostile, confidence),
        invalid_rate=wilson(invalid / n, n, confidence),
        mistakes=tuple(
            Mistake(exchange.id, exchange.type, exchange.label, verdict.verdict, verdict.rationale)
            for exchange, verdict in judged
            if verdict.label != exchange.label
        ),
    )


def _share(correct: Sequence[bool], confidence: float) -> Estimate | None:
    return wilson(sum(correct) / len(correct), len(correct), confidence) if correct else None
