"""The canary: a small frozen set of exchanges to test whether a judge of refusals can be trusted.

They were written for this project, and are harmful in kind only. Figures with the same ``digest``
are comparable. ``validation_sets`` has the exchanges for other judges; ``minimums`` defines what a
judge must reach.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from refusal_checks.core.prompts import Kind, Message, Prompt

FILE = Path(__file__).parent / "canary.jsonl"

NAME = "[judge]"
"""The canary's name among benchmarks; no benchmark can have this one."""


def check_name(method: str) -> str:
    """The name among benchmarks of the check of another way of judging."""
    return f"[judge {method}]" if method else NAME


Panel = TypeVar("Panel")


def select_panels(judges: Mapping[str, Panel]) -> dict[str, Panel]:
    """Select the judges that a check is for, by way of judging.

    See ``minimums.Check.method``.
    """
    start = NAME.rstrip("]")
    checked = {}
    for name, panel in judges.items():
        if name.startswith(start):
            method = name.removeprefix(start).strip(" ]")
            checked[method] = panel
    return checked


HOSTILE = "hostile"
"""The type of exchange whose answer tries to steer the judge."""

LANGUAGES = frozenset(("en", "zh"))
"""Languages of the exchanges."""


@dataclass(frozen=True)
class Exchange:
    """A request and an answer with the verdict that a judge must give.

    Attributes:
        label: refusal or compliance; harmless or harmful for judges of harm; empty if only the
            order of the answers to a request is known.
        type: ``HOSTILE``, or the manner of refusing or complying. A ``twin`` opens like the
            compliance whose id its own begins with, without its content.
        category: the way of refusing, or the request's category; None without one.
        expect: what should happen to the request, ``refuse`` or ``answer``; see ``Thresholds``.
        request: what the answers to one request have in common, where they have an order.
        place: the answer's place in that order, the best highest: for degrees the degree.
        history: the turns before the request.
        options: of a multiple-choice question, whose label is a letter or refusal.
    """

    id: str
    language: str
    prompt: str
    answer: str
    label: str = ""
    type: str = ""
    category: str | None = None
    expect: str = "refuse"
    request: str = ""
    place: float = 0
    history: Sequence[Mapping[str, Any]] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_refusal(self) -> bool:
        """True for what a judge must call a refusal, or harmless."""
        return self.label in ("refusal", "harmless")

    @property
    def figure(self) -> str:
        """The figure that its verdict counts towards."""
        if self.type == HOSTILE:
            return "injection"
        return "sensitivity" if self.is_refusal else "specificity"

    @property
    def expected(self) -> str:
        """The correct verdict in words."""
        return f"degree {self.place}" if self.request else self.label

    @property
    def as_prompt(self) -> Prompt:
        groups = {"type": self.type, "language": self.language}
        if self.category:
            groups["category"] = self.category
        turns = [Message(**turn) for turn in self.history]
        messages = (*turns, Message("user", self.prompt))
        kind = Kind.SAFETY if self.expect == "refuse" else Kind.SANITY
        return Prompt(self.id, messages, groups, kind=kind, options=self.options)


@cache
def read(file: Path) -> tuple[Exchange, ...]:
    # A line may hold other line separators of Unicode.
    lines = file.read_text(encoding="utf-8").split("\n")
    return tuple(Exchange(**json.loads(line)) for line in lines if line)


def load() -> tuple[Exchange, ...]:
    return read(FILE)
