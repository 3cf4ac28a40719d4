"""What judges are checked on: a set of exchanges with known verdicts for each scale.

Judges of refusals read the canary. Judges by another scale read answers to the same request whose
order is known (degrees, ratings), and judges that measure harm read harmful answers with harmless
ones to the same requests. All were written for this project, and are harmful in kind only.
``minimums`` defines what a judge must reach.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from refusal_checks.benchmarks.suites.bundled import ANSWERS
from refusal_checks.core.judgements import Binary, Chosen, Graded, Rated, Valid
from refusal_checks.core.language import other_language
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion
from refusal_checks.io.data_files import read_rows
from refusal_checks.judges.base64_text import decode_exchange
from refusal_checks.judges.judge import JudgeKind
from refusal_checks.models.recordings.recording import Recording, ReplayCandidate
from refusal_checks.trust import canary
from refusal_checks.trust.canary import Exchange

DEGREES = canary.FILE.with_name("degrees.jsonl")
HARM = canary.FILE.with_name("harm.jsonl")
CHOICES = canary.FILE.with_name("choices.jsonl")


@dataclass(frozen=True)
class ValidationSet:
    """Exchanges with known verdicts, for judges of one scale.

    Attributes:
        measures: what such judges measure, in the plural.
        file: the exchanges.
        figures: the figures that decide, see ``minimums.Figure``.
        value: a verdict's place on the scale, the best highest; None without an order.
        about: what figures are, where that differs from refusals.
        languages: those checked, if exchanges in others are left out; else empty.
        kept: the exchanges that are not left out; None for all.
    """

    measures: str
    file: Path
    figures: tuple[str, ...]
    value: Callable[[Any], float] | None = None
    about: Mapping[str, str] = field(default_factory=dict)
    languages: tuple[str, ...] = ()
    kept: tuple[Exchange, ...] | None = None

    def load(self) -> Sequence[Exchange]:
        if self.kept is not None:
            return self.kept
        return _read_ratings() if self.file == ANSWERS else canary.read(self.file)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.file.read_bytes()).hexdigest()

    def by_id(self) -> Mapping[str, Exchange]:
        return {exchange.id: exchange for exchange in self.load()}

    def within(self, languages: tuple[str, ...]) -> ValidationSet:
        """Leave out answers in languages that a judge does not declare.

        Gates give such answers no verdict either (see ``ModelJudge.judge_offline``), so nothing
        unchecked can pass.
        """
        kept = []
        for exchange in self.load():
            _, read = decode_exchange(exchange.as_prompt, Completion(exchange.answer))
            if not other_language(read.text, languages):
                kept.append(exchange)
        every = {exchange.language for exchange in self.load()}
        checked: tuple[str, ...] = ()
        if not every <= set(languages):
            checked = tuple(sorted(every & set(languages))) or languages
        return replace(self, kept=tuple(kept), languages=checked)

    def plan(self) -> list[Prompt]:
        """The prompts to judge, short answers first, so that most verdicts come early."""
        exchanges = sorted(self.load(), key=lambda exchange: len(exchange.answer))
        return [exchange.as_prompt for exchange in exchanges]

    def candidate(self) -> ReplayCandidate:
        answers = {
            (exchange.id, ""): (Completion(exchange.answer),)
            for exchange in self.load()
        }
        return ReplayCandidate(canary.NAME, Recording(self.file, answers, {}))


@cache
def _read_ratings() -> tuple[Exchange, ...]:
    """Answers that get worse step by step, each request's best first."""
    exchanges: list[Exchange] = []
    steps: dict[str, int] = {}
    for row in read_rows(ANSWERS):
        request = row["id"]
        step = steps[request] = steps.get(request, 0) + 1
        exchanges.append(
            Exchange(
                id=f"{request}-{step}",
                language=row["language"],
                prompt=row["prompt"],
                answer=row["completion"],
                category=row["category"],
                request=request,
                place=-float(step),
            )
        )
    return tuple(exchanges)


def _half_points(verdict: Rated) -> float:
    """A rating in steps of half a point, as far as the bounds of the shipped gates lie apart.

    So a judge that rates all answers nearly alike puts them in no order.
    """
    return round(2 * verdict.score)


_SHARES = ("specificity", "sensitivity", "injection")

REFUSALS = ValidationSet("refusals", canary.FILE, (*_SHARES, "invalid_rate"))

OF_HARM = ValidationSet(
    "harm",
    HARM,
    (*_SHARES, "invalid_rate"),
    about={
        "specificity": "harmful answers read as harmful",
        "sensitivity": "harmless answers read as harmless",
    },
)

SETS: Mapping[type[Valid], ValidationSet] = {
    Binary: REFUSALS,
    Graded: ValidationSet(
        "degrees",
        DEGREES,
        (*_SHARES, "rank_agreement", "invalid_rate"),
        value=lambda verdict: float(verdict.degree),
    ),
    Rated: ValidationSet(
        "ratings",
        ANSWERS,
        ("rank_agreement", "invalid_rate"),
        value=_half_points,
    ),
    Chosen: ValidationSet(
        "choices",
        CHOICES,
        ("specificity", "invalid_rate"),
        about={"specificity": "choices read as the answer states them"},
    ),
}
"""The exchanges for judges whose verdicts are of a type; other types have no check."""

EVERY = (*SETS.values(), OF_HARM)


def has_check(kind: JudgeKind) -> bool:
    """True if judges of this kind can be checked on exchanges with known verdicts."""
    return kind.judgement_type in SETS
