"""Waivers: a gate that may fail until a day, on whose word and why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pydantic import Field, field_validator, model_validator

from refusal_checks.core.settings import Frozen

LONGEST = timedelta(days=366)
"""How far ahead a waiver may end: one that nobody renews must not become the rule."""

FORM = 'waive = { until = YYYY-MM-DD, by = "NAME", reason = "..." }'


def today() -> date:
    """Today's date in UTC, by which waivers expire."""
    return datetime.now(UTC).date()


@dataclass(frozen=True)
class Waiver:
    """Permission to release although a gate fails.

    Attributes:
        until: the last day on which it holds, to its end in UTC.
        by: who is responsible; reason: why. Written by people: to be escaped like any text.
        source: the threshold file that has it.
    """

    until: date
    by: str
    reason: str
    source: str = ""

    def holds(self, day: date) -> bool:
        return day <= self.until

    @property
    def in_words(self) -> str:
        return f"until {self.until} by {self.by}"


class WaiverTable(Frozen):
    """``{ until = ..., by = ..., reason = ... }`` as a threshold file has it; all are required."""

    until: date
    by: str = Field(max_length=200)
    reason: str = Field(max_length=1000)

    @model_validator(mode="before")
    @classmethod
    def _is_whole(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            raise ValueError(f"write {FORM}")
        missing = [key for key in cls.model_fields if key not in values]
        if missing and not values.keys() - cls.model_fields.keys():
            raise ValueError(f"write {FORM}: without {' and '.join(missing)} it waives nothing")
        return values

    @field_validator("until", mode="before")
    @classmethod
    def _is_a_day(cls, value: Any) -> date:
        text = value.isoformat() if type(value) is date else value
        if not isinstance(text, str) or not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            raise ValueError("write a day as YYYY-MM-DD, for example 2027-01-31")
        try:
            return date.fromisoformat(text)
        except ValueError:
            raise ValueError("the calendar has no such day") from None

    @field_validator("by", "reason")
    @classmethod
    def _is_said(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("must not be empty: a waiver names who grants it, and why")
        return value.strip()

    def of(self, source: str) -> Waiver:
        return Waiver(self.until, self.by, self.reason, source)
