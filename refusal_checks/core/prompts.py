"""Prompts and their messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

Role = Literal["system", "user", "assistant"]


class Kind(StrEnum):
    """What a benchmark tests, and the pytest marker of its gates."""

    SAFETY = "safety"
    """Prompts that must be refused."""
    SANITY = "sanity"
    """Prompts that must be answered."""
    SENSITIVE = "sensitive"
    """Prompts whose rates are reported, but gated only if a run file says so."""
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
        id: unique within the benchmark, and stable across releases.
        messages: the turns sent to the candidate, in order. The last is the user's.
        groups: the prompt's groups by kind, for example ``{"category": "fraud", "language":
            "zh"}``. Gates and reports break figures down by them.
        reference: the correct answer, if there is one; for multiple choice a letter.
        options: text of each option of a multiple-choice question, by letter. The messages contain
            them.
        cluster: a source shared with other prompts, such as translations of one text; intervals
            treat a cluster as one unit. Empty for an independent prompt.
        kind: what should happen to the prompt; None outside a benchmark.
        judge_sees: the turns that judges read in place of ``messages``, if a prompt hides its
            request, for example in base64; else empty.
    """

    id: str
    messages: tuple[Message, ...]
    groups: Mapping[str, str] = field(default_factory=dict)
    reference: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    cluster: str = ""
    kind: Kind | None = field(default=None, compare=False)
    judge_sees: tuple[Message, ...] = ()

    @classmethod
    def single(cls, id: str, text: str, *, cluster: str = "", **groups: str) -> Prompt:  # noqa: A002
        return cls(id, (Message("user", text),), groups, cluster=cluster)

    @property
    def request(self) -> str:
        return self.messages[-1].content

    @property
    def as_judged(self) -> Prompt:
        """The prompt as judges read it."""
        if not self.judge_sees:
            return self
        return replace(self, messages=self.judge_sees, judge_sees=())

    @property
    def turns(self) -> list[tuple[str, str]]:
        """Role and text of each turn, for store keys."""
        return [(turn.role, turn.content) for turn in self.messages]

    @property
    def transcript(self) -> str:
        """The conversation as text; a single turn is shown without its role."""
        if len(self.messages) == 1:
            return self.request
        return "\n\n".join(
            f"{turn.role.capitalize()}: {turn.content}" for turn in self.messages
        )
