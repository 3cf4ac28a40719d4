"""One thing that the doctor looked at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from refusal_checks.core.text import clean


class Level(StrEnum):
    """How well something is."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        remedy: what to do; empty if nothing.
    """

    level: Level
    what: str
    said: str
    remedy: str = ""

    def __str__(self) -> str:
        said = "; ".join(filter(None, (self.said, self.remedy)))
        return f"{self.level:<4}  {self.what:<12}  {clean(said, 1000)}"
