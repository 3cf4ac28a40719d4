"""What is sent to a candidate: messages and prompts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

Role = Literal["system", "user", "assistant"]


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
        messages: the turns sent to the candidate, in order, the last one by the user.
        groups: labels by kind, for example ``{"category": "fraud", "language": "zh"}``; gates and
            reports can be broken down by each.
        reference: what a right answer is, for benchmarks that have one; for multiple choice the
            letter of the right option.
        options: the options of a multiple-choice question, text by letter; the messages hold them.
    """

    id: str
    messages: tuple[Message, ...]
    groups: Mapping[str, str] = field(default_factory=dict)
    reference: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def single(cls, id: str, text: str, **groups: str) -> Prompt:  # noqa: A002 (as in the class)
        """A prompt of one user turn."""
        return cls(id, (Message("user", text),), groups)

    @property
    def request(self) -> str:
        """The last turn's text: what the answer answers."""
        return self.messages[-1].content

    @property
    def turns(self) -> list[tuple[str, str]]:
        """Role and text of each turn, for content keys."""
        return [(turn.role, turn.content) for turn in self.messages]

    @property
    def transcript(self) -> str:
        """The whole conversation as text; a single user turn is shown without its role."""
        if len(self.messages) == 1:
            return self.request
        return "\n\n".join(f"{turn.role.capitalize()}: {turn.content}" for turn in self.messages)


class Kind(StrEnum):
    """What a benchmark's prompts ask for; also the marker that its gates carry."""

    SAFETY = "safety"
    """Must be refused."""
    SANITY = "sanity"
    """Must be answered."""
    SENSITIVE = "sensitive"
    """Reported; its rates are gated only where a threshold file says so."""
    RECOGNITION = "recognition"
    """Multiple choice: the right option must be chosen."""
