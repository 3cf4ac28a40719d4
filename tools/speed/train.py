"""A release train on paper: its tokens, and the hours that they take at published speeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tools.speed.published import PRICES, Published

Rationales = Literal["all", "offenders"]
Placed = Literal["shared", "split"]

REASONS_SHARE = 0.05
"""Share of answers whose reasons are asked for afterwards."""

BLOCK = 16
"""Tokens in a block of vLLM's prefix cache, which holds whole blocks only."""


class Form(NamedTuple):
    """Tokens of a judge's prompt and verdict besides the exchange, by Llama 3's tokenizer.

    Attributes:
        instructions: before the exchange, the same for each verdict.
        frame: around the exchange: its markers, and the last sentence.
        written: by the judge, with the token that ends it.
    """

    instructions: int
    frame: int
    written: int


WHOLE, ALONE = Form(956, 52, 35), Form(861, 60, 5)
"""Of the refusal judge's own prompt: with rationale and category, and for the verdict alone."""


@dataclass(frozen=True)
class Lengths:
    """Tokens of an exchange.

    Attributes:
        head: that the chat template writes before a system message; turns: after it, and after the
            user's message; both as Llama 3.1's does.
        prompt: of a benchmark; answer: of the candidate; both on average.
    """

    head: int = 25
    turns: int = 10
    prompt: int = 50
    answer: int = 256

    @property
    def asked(self) -> int:
        """Of the candidate's whole prompt."""
        return self.head + self.turns + self.prompt

    def judged(self, form: Form) -> int:
        """Of a judge's whole prompt."""
        return self.asked + self.answer + form.instructions + form.frame

    def cached(self, form: Form) -> int:
        """Of a judge's prompt in the prefix cache."""
        return (self.head + form.instructions) // BLOCK * BLOCK


class Tokens(NamedTuple):
    """Of one checkpoint, or of several."""

    candidate_in: float
    candidate_out: float
    judge_in: float
    judge_cached: float
    judge_out: float

    def times(self, count: float) -> Tokens:
        """Of so many checkpoints."""
        return Tokens(*(count * each for each in self))


@dataclass(frozen=True)
class Train:
    """What is evaluated.

    Attributes:
        samples: answers to a prompt, K.
        rationales: whose verdicts come with a rationale.
        shown: answers of a checkpoint that reports show, of which a second request asks for the
            rationale, where only offenders have one; it also asks for a sample's.
        repeated: share of verdicts that the store has already.
        judged: share of answers that the model reads, below 1 beside ``bundled``.
        cache: whether the engine has a prefix cache.
    """

    checkpoints: int = 10
    prompts: int = 27_000
    samples: int = 5
    lengths: Lengths = Lengths()
    rationales: Rationales = "all"
    shown: int = 400
    repeated: float = 0.0
    judged: float = 1.0
    cache: bool = True

    @property
    def verdicts(self) -> float:
        """Of a checkpoint, that are asked for."""
        return self.prompts * self.samples * self.judged * (1 - self.repeated)

    @property
    def asked(self) -> dict[Form, float]:
        """How often a judge is asked for a checkpoint, by the form."""
        if self.rationales == "all":
            return {WHOLE: self.verdicts}
        explained = self.shown + REASONS_SHARE * self.verdicts
        return {ALONE: self.verdicts, WHOLE: min(explained, self.verdicts)}

    def _cached(self, form: Form) -> int:
        return self.lengths.cached(form) if self.cache else 0

    @property
    def tokens(self) -> Tokens:
        """Of one checkpoint. One request asks for all K answers, so that their prompt is read once.

        ``judge_cached`` is part of ``judge_in``.
        """
        asked = self.asked.items()
        return Tokens(
            candidate_in=self.prompts * self.lengths.asked,
            candidate_out=self.prompts * self.samples * self.lengths.answer,
            judge_in=sum(count * self.lengths.judged(form) for form, count in asked),
            judge_cached=sum(count * self._cached(form) for form, count in asked),
            judge_out=sum(count * form.written for form, count in asked),
        )

    def answering(self, candidate: Published) -> float:
        """Seconds of one copy of the candidate, for a checkpoint."""
        costs, lengths = candidate.costs(), self.lengths
        one = costs.seconds(lengths.asked, lengths.asked, lengths.answer)
        return self.prompts * (costs.read * lengths.asked + self.samples * one)

    def judging(self, judge: Published) -> float:
        """Seconds of one copy of the judge, for a checkpoint."""
        costs, lengths = judge.costs(), self.lengths
        return sum(
            count
            * costs.seconds(lengths.judged(form), self._cached(form), form.written)
            for form, count in self.asked.items()
        )


@dataclass(frozen=True)
class Machine:
    """Where a train runs.

    Attributes:
        placed: ``shared``: both models have all GPUs, at the same time or in turns; ``split``:
            each has GPUs of its own, divided as serves the slower one best.
    """

    gpus: int
    candidate: Published
    judge: Published
    placed: Placed = "shared"

    def hours(self, train: Train) -> float:
        """Of the whole train, if copies on more GPUs are as much faster.

        Raises:
            ValueError: the GPUs are too few.
        """
        answering, judging = train.answering(self.candidate), train.judging(self.judge)
        if self.placed == "shared":
            seconds = answering / self._copies(self.candidate, self.gpus)
            seconds += judging / self._copies(self.judge, self.gpus)
        else:
            seconds = min(
                max(answering / own, judging / rest) for own, rest in self._divisions()
            )
        return train.checkpoints * seconds / 3600

    def _divisions(self) -> Sequence[tuple[int, int]]:
        """Copies of the candidate and of the judge, where each has GPUs of its own."""
        own, rest, gpus = self.candidate.gpus, self.judge.gpus, self.gpus
        if own + rest > gpus:
            raise ValueError(f"{own} and {rest} GPUs are needed, here are {gpus}")
        each = range(own, gpus - rest + 1)
        return [(count // own, (gpus - count) // rest) for count in each]

    def dollars(self, train: Train) -> float:
        """Of the whole train."""
        price = PRICES[8 if self.gpus > 1 else 1].dollars
        return self.hours(train) * self.gpus * price

    @staticmethod
    def _copies(model: Published, gpus: int) -> int:
        if gpus < model.gpus:
            raise ValueError(
                f"{model.model} was measured on {model.gpus} GPUs, here are {gpus}"
            )
        return gpus // model.gpus
