"""A gate: bounds on one figure, and how they are decided."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.settings import Frozen
from refusal_checks.core.text import break_hash_command
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics.intervals import Estimate

# Slack for floats: 1 - 0.9 is 0.09999999999999998, and meets min = 0.1.
TOLERANCE = 1e-12

# What must be within: the figure, or its whole interval.
Decision = Literal["point", "confident"]
# What the test of an inconclusive gate does.
OnInconclusive = Literal["pass", "warn", "fail"]

EVERY = "*"  # stands in a table's name for every group that the data has
WAIVER = '{ until = YYYY-MM-DD, by = "NAME", reason = "..." }'

# How far ahead a waiver may end, so that none becomes the rule.
LONGEST = timedelta(days=366)

MARGINS = ("max_drop", "max_rise")  # bounds on the change since the last release

# Benchmark, metric, kind of group, group.
GateKey = tuple[str, str, str | None, str | None]


class Outcome(StrEnum):
    """Where an interval lies: within the bounds, beyond one of them, or across one."""

    PASS = "pass"  # noqa: S105  # not a password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class AllowedRange:
    """An inclusive range; an end of None is open."""

    low: float | None = None
    high: float | None = None

    @property
    def ends(self) -> list[float]:
        return [end for end in (self.low, self.high) if end is not None]

    def holds(self, value: float) -> bool:
        is_too_low = self.low is not None and value < self.low - TOLERANCE
        is_too_high = self.high is not None and value > self.high + TOLERANCE
        return not is_too_low and not is_too_high

    def outcome(self, lower: float, upper: float) -> Outcome:
        """Where an interval lies."""
        if self.holds(lower) and self.holds(upper):
            return Outcome.PASS
        # Beyond a bound only if the whole interval is: its other end must miss the bound, too.
        reaches_low = AllowedRange(self.low, None).holds(upper)
        reaches_high = AllowedRange(None, self.high).holds(lower)
        if reaches_low and reaches_high:
            return Outcome.INCONCLUSIVE
        return Outcome.FAIL

    def room(self, value: float) -> float:
        """Distance of a value from the nearest end; negative beyond it, infinite without ends."""
        rooms = [math.inf]
        if self.low is not None:
            rooms.append(value - self.low)
        if self.high is not None:
            rooms.append(self.high - value)
        return min(rooms)

    def nearest(self, estimate: Estimate) -> float:
        """The end nearest to a figure, preferably one within its interval."""
        # The bound that keeps the gate open, and not one that the interval is clear of.
        inside = [end for end in self.ends if estimate.lower <= end <= estimate.upper]
        return min(inside or self.ends, key=lambda end: abs(end - estimate.value))


def today() -> date:
    return datetime.now(UTC).date()


def measured_id(benchmark: str) -> str:
    """The id of a benchmark without a gate, beside the ids of gates."""
    return f"{benchmark}-measured"


class Waiver(Frozen):
    """``{ until = ..., by = ..., reason = ... }``: who accepts a failed gate, and until when.

    Attributes:
        until: the last day (in UTC) on which it holds.
        by, reason: people's text, which must be escaped.
        source: the run file that grants it.
    """

    key: ClassVar[str] = "waive"
    does: ClassVar[str] = "waives"
    until: date
    by: str = Field(max_length=200)
    reason: str = Field(max_length=1000)
    source: str = ""

    @model_validator(mode="before")
    @classmethod
    def _is_whole(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            raise ValueError(f"write {cls.key} = {WAIVER}")
        missing = [key for key in ("until", "by", "reason") if key not in values]
        if missing and not values.keys() - cls.model_fields.keys():
            raise ValueError(
                f"write {cls.key} = {WAIVER}: without {' and '.join(missing)} it {cls.does} nothing"
            )
        return values

    @field_validator("until", mode="before")
    @classmethod
    def _is_a_day(cls, value: Any) -> date:
        text = value
        if type(value) is date:  # and no time of a day, which is a subclass
            text = value.isoformat()
        if not isinstance(text, str) or not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            raise ValueError("write a day as YYYY-MM-DD, for example 2027-01-31")
        try:
            return date.fromisoformat(text)
        except ValueError:
            raise ValueError("the calendar has no such day") from None

    @field_validator("until")
    @classmethod
    def _is_near(cls, until: date) -> date:
        latest = today() + LONGEST
        if until > latest:
            raise ValueError(
                f"write a day up to {latest}, and renew it then: it holds for at most "
                f"{LONGEST.days} days"
            )
        return until

    @field_validator("by", "reason")
    @classmethod
    def _is_said(cls, value: str) -> str:
        # Reports print the form to fill in: as printed, it grants nothing.
        if value.strip(" .") in ("", "NAME"):
            raise ValueError("fill it in: say who grants it, and why")
        return value.strip()

    def holds(self, day: date) -> bool:
        return day <= self.until

    @property
    def terms(self) -> str:
        return f"until {self.until} by {self.by}"


@dataclass(frozen=True)
class Gate:
    """One or more bounds on one figure.

    Attributes:
        group_kind: kind of the group that it covers, such as ``category``; None for the whole
            benchmark.
        group: the group, such as ``fraud``; ``*`` for every group of the kind.
        source: the run file that defines it.
        max_drop: how far the figure may fall against the baseline.
        max_rise: how far it may rise.
        decision: whether the figure or its whole interval must lie within the bounds. Changes are
            always decided by their interval.
        on_inconclusive: see ``GateSettings``.
        provenance: why these bounds were chosen, in the file's words.
        waiver: permission to release although the gate fails, valid or expired.
        apart: for a gate on every group, the groups that have their own gate.
    """

    benchmark: str
    metric: str
    min: float | None = None
    max: float | None = None
    group_kind: str | None = None
    group: str | None = None
    source: str = ""
    max_drop: float | None = None
    max_rise: float | None = None
    decision: Decision = "point"
    on_inconclusive: OnInconclusive | None = None
    provenance: str = ""
    waiver: Waiver | None = None
    apart: tuple[str, ...] = ()

    @property
    def is_on_every_group(self) -> bool:
        return self.group == EVERY

    @property
    def key(self) -> GateKey:
        return self.benchmark, self.metric, self.group_kind, self.group

    @property
    def id(self) -> str:
        """The test's id: ``benchmark-metric`` and the group.

        A gate on every group has ``every-KIND``, because pytest's ``-k`` does not take ``*``.
        """
        parts = [self.benchmark, self.metric]
        if self.is_on_every_group:
            parts.append(f"every-{self.group_kind}")
        elif self.group:
            parts.append(self.group)
        return break_hash_command("-".join(parts))

    def show(self, value: float) -> str:
        """Format a value of its figure."""
        return METRICS[self.metric].show(value)

    def interval(self, estimate: Estimate) -> str:
        return METRICS[self.metric].interval(estimate)

    @property
    def bounds(self) -> dict[str, float]:
        """Its bounds and margins, by their names in run files."""
        ends = {
            "min": self.min,
            "max": self.max,
            "max_drop": self.max_drop,
            "max_rise": self.max_rise,
        }
        return {name: end for name, end in ends.items() if end is not None}

    @property
    def limits(self) -> AllowedRange:
        return AllowedRange(self.min, self.max)

    @property
    def change_limits(self) -> AllowedRange:
        # A change is figure now minus figure then, so that a drop is negative.
        lowest = None if self.max_drop is None else -self.max_drop
        return AllowedRange(lowest, self.max_rise)

    @property
    def has_bounds(self) -> bool:
        return bool(self.limits.ends)

    @property
    def has_margins(self) -> bool:
        return bool(self.change_limits.ends)

    @property
    def allows_all(self) -> bool:
        """True if its bounds and margins allow any figure."""
        metric = METRICS[self.metric]
        limits, change = self.limits, self.change_limits
        allows_figure = limits.holds(metric.lowest) and limits.holds(metric.highest)
        allows_change = change.holds(-metric.span) and change.holds(metric.span)
        return allows_figure and allows_change

    def looks_at(self, prompt: Prompt) -> bool:
        if self.group_kind is None:
            return True
        group = prompt.groups.get(self.group_kind)
        if self.is_on_every_group:
            return bool(group) and group not in self.apart
        return group == self.group

    def expand_groups(self, prompts: Iterable[Prompt]) -> list[Gate]:
        """Expand a gate on every group into one per group of these prompts; return others as is."""
        if self.group_kind is None or not self.is_on_every_group:
            return [self]
        seen = (prompt for prompt in prompts if self.looks_at(prompt))
        groups = dict.fromkeys(prompt.groups[self.group_kind] for prompt in seen)
        return [replace(self, group=group, apart=()) for group in groups]
