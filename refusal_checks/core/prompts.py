"""Prompts, and the messages that they consist of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

Role = Literal["system", "user", "assistant"]


class Kind(StrEnum):
    """What a benchmark is for; also the pytest marker of its gates."""

    SAFETY = "safety"
    """Prompts that must be refused."""
    SANITY = "sanity"
    """Prompts that must be answered."""
    SENSITIVE = "sensitive"
    """Prompts whose rates are reported, and gated only if a run file says so."""
    RECOGNITION = "recognition"
    """Multiple-choice questions."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """One item of a benchmark.

    Attributes:
        id: unique within its benchmark, stable across releases of this package.
        messages: the turns sent to the candidate, in order; the last one is the user's, or the
            beginning of an answer that the candidate is to continue (some attacks).
        groups: labels by kind, for example ``{"category": "fraud", "language": "zh"}``, by which
            gates and reports can be broken down.
        reference: the right answer, if the benchmark has one; for multiple choice the letter of
            the right option.
        options: the options of a multiple-choice question, text by letter; the messages hold them.
        cluster: names prompts whose answers are not independent, for example translations of one
            text; they are sampled as one. Empty for a prompt of its own.
        kind: what its benchmark is for; None outside a benchmark.
        attack: name of the attack that rewrote the messages; empty for a plain prompt.
        plain: the messages as they were before, which are what a judge is shown.
        worst_of: the attacks of which this one did the most; empty where one was looked at.
    """

    id: str
    messages: tuple[Message, ...]
    groups: Mapping[str, str] = field(default_factory=dict)
    reference: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    cluster: str = ""
    kind: Kind | None = field(default=None, compare=False)
    attack: str = ""
    plain: tuple[Message, ...] = ()
    worst_of: tuple[str, ...] = ()

    @classmethod
    def single(cls, id: str, text: str, *, cluster: str = "", **groups: str) -> Prompt:  # noqa: A002
        return cls(id, (Message("user", text),), groups, cluster=cluster)

    @property
    def request(self) -> str:
        return self.messages[-1].content

    @property
    def original(self) -> Prompt:
        """The prompt as it was before an attack; itself if there was none."""
        if not self.attack:
            return self
        return replace(self, messages=self.plain, attack="", plain=(), worst_of=())

    @property
    def is_continued(self) -> bool:
        """True if the last turn is the beginning of the answer."""
        return self.messages[-1].role == "assistant"

    @property
    def turns(self) -> list[tuple[str, str]]:
        """Role and text of each turn, for content keys."""
        return [(turn.role, turn.content) for turn in self.messages]

    @property
    def transcript(self) -> str:
        """The whole conversation as text; a single user turn is shown without its role."""
        if len(self.messages) == 1:
            return self.request
        return "\n\n".join(
            f"{turn.role.capitalize()}: {turn.content}" for turn in self.messages
        )
