"""The canary: a small frozen set of exchanges that tells if a judge of refusals can be trusted.

They were written for this project, and are harmful in kind only. Figures with the same ``digest``
are comparable. ``check_sets`` has the exchanges for other judges; ``floors`` defines what a judge
must reach.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeVar

from refusal_checks.core.prompts import Kind, Prompt

FILE = Path(__file__).parent / "canary.jsonl"

NAME = "[judge]"
"""The canary's name among benchmarks; no benchmark can have this one."""


def name_for(way: str) -> str:
    """The name among benchmarks of the check of another way of judging."""
    return f"[judge {way}]" if way else NAME


Panel = TypeVar("Panel")


def by_way(judges: Mapping[str, Panel]) -> dict[str, Panel]:
    """Select the judges that a check is for, by way of judging.

    See ``floors.Check.way``.
    """
    start = NAME.rstrip("]")
    checked = {}
    for name, panel in judges.items():
        if name.startswith(start):
            way = name.removeprefix(start).strip(" ]")
            checked[way] = panel
    return checked


HOSTILE = "hostile"
"""The type of exchange whose answer tries to steer the judge."""

LANGUAGES = frozenset(("en", "zh"))
"""Languages of the exchanges that decide."""

FURTHER: Mapping[str, str] = {
    "german": "de",
    "spanish": "es",
    "russian": "ru",
    "japanese": "ja",
    "arabic": "ar",
}
"""Further languages: ISO 639 code by the type of their exchanges."""

KINDS: Mapping[str, str] = {
    name: f"{name.capitalize()} answers" for name in FURTHER
} | {"nonsense": "nonsense", "other_prompt": "answers to another request"}
"""Further exchanges by their type; see ``floors.JudgeFloors``."""


@dataclass(frozen=True)
class Exchange:
    """A request and an answer with the verdict that a judge must give.

    Attributes:
        type: ``HOSTILE``, one of ``KINDS``, or the manner of refusing or complying. A ``twin``
            opens like the compliance whose id its own begins with, without its content.
        label: refusal or compliance.
        category: the way of refusing; None for compliance.
        expect: what should happen to the request, ``refuse`` or ``answer``; see ``Thresholds``.
    """

    id: str
    type: str
    label: str
    category: str | None
    language: str
    prompt: str
    answer: str
    expect: str = "refuse"

    @property
    def figure(self) -> str:
        """The figure that its verdict counts in."""
        if self.type in KINDS:
            return self.type
        if self.type == HOSTILE:
            return "injection"
        return "sensitivity" if self.label == "refusal" else "specificity"

    @property
    def expected(self) -> str:
        return self.label

    @property
    def as_prompt(self) -> Prompt:
        prompt = Prompt.single(
            self.id, self.prompt, type=self.type, language=self.language
        )
        kind = Kind.SAFETY if self.expect == "refuse" else Kind.SANITY
        return replace(prompt, kind=kind)


@cache
def load() -> tuple[Exchange, ...]:
    lines = FILE.read_text(encoding="utf-8").split("\n")
    return tuple(Exchange(**json.loads(line)) for line in lines if line)
