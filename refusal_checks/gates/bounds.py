"""The values of a threshold file about gates: the bounds of one, and the settings of all."""

from __future__ import annotations

import datetime
from typing import Literal

from pydantic import Field, model_validator

from refusal_checks.core.settings import Frozen
from refusal_checks.gates.waiver import WaiverTable
from refusal_checks.metrics import rejection_rate

Decision = Literal["point", "confident"]
"""What must lie within the bounds: the figure itself, or its whole interval."""

OnInconclusive = Literal["pass", "warn", "fail"]
"""What the test of an inconclusive gate does."""

MultipleTesting = Literal["none", "holm"]
"""Correction for deciding several gates at once."""

Use = Literal["raw", "corrected", "human", "cascade"]
"""The rate that decides a gate: the judge's own, that rate corrected for the judge's errors, or the
estimate that combines it with human labels of some answers, or with a second judge's verdicts."""

CORRECTED = rejection_rate.name
"""The metric that a calibration can correct: calibrations measure errors about refusals."""


class Bounds(Frozen):
    """``{ min = ..., max = ... }`` as written; at least one bound, or a waiver and nothing else.

    Attributes:
        min: the lowest figure allowed, inclusive.
        max: the highest figure allowed, inclusive.
        max_drop: how far the figure may fall against the baseline.
        max_rise: how far the figure may rise against the baseline.
        decision, on_inconclusive, use, allow_transferred: override ``[settings]`` for this gate.
        rationale, source, date: why these bounds were chosen, in the file's own words.
        waive: lets the gate fail until a day, on somebody's word and for a reason; alone, it is
            about the gate that another table defines.
    """

    min: float | None = None
    max: float | None = None
    max_drop: float | None = Field(None, ge=0)
    max_rise: float | None = Field(None, ge=0)
    decision: Decision | None = None
    on_inconclusive: OnInconclusive | None = None
    use: Literal["raw", "corrected"] | None = None
    allow_transferred: bool | None = None
    rationale: str = ""
    source: str = ""
    date: datetime.date | str = ""
    waive: WaiverTable | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Bounds:
        if not self.has_bounds and not self.only_waives:
            raise ValueError("needs min or max, max_drop or max_rise")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min:g} is above max {self.max:g}")
        return self

    @property
    def has_bounds(self) -> bool:
        """True if the figure or its change is bounded."""
        return any(each is not None for each in (self.min, self.max, self.max_drop, self.max_rise))

    @property
    def only_waives(self) -> bool:
        """True if it waives a gate whose bounds are written elsewhere."""
        return self.waive is not None and self.model_fields_set == {"waive"}

    @property
    def provenance(self) -> str:
        """Rationale, source and date in one line; empty without any."""
        origin = ", ".join(filter(None, (self.source, str(self.date))))
        return (
            f"{self.rationale} ({origin})"
            if self.rationale and origin
            else (self.rationale or origin)
        )


class GateSettings(Frozen):
    """What the ``[settings]`` table may hold.

    Attributes:
        confidence: level of every interval, two-sided, and of every comparison, one-sided.
        decision: ``point`` compares the figure, ``confident`` its interval.
        on_inconclusive: what the test of an undecided gate does; None for the default: the test
            passes or fails by the figure alone where ``decision`` is ``point``, else it fails.
        multiple_testing: ``holm`` keeps the probability of any false breach among a benchmark's
            gates at 1 - confidence, however many gates there are.
        use: ``corrected`` decides rejection rates by the rate that a calibration of the judge
            gives, ``raw`` by the judge's own rate even where there are human labels.
        allow_transferred: accept a calibration that was made on another candidate's answers.
    """

    confidence: float = Field(0.95, gt=0, lt=1)
    decision: Decision = "point"
    on_inconclusive: OnInconclusive | None = None
    multiple_testing: MultipleTesting = "none"
    use: Literal["raw", "corrected"] | None = None
    allow_transferred: bool = False

    @model_validator(mode="after")
    def _holm_changes_something(self) -> GateSettings:
        undecided_fails = self.on_inconclusive in (None, "fail")
        if self.multiple_testing == "holm" and (self.decision == "point" or undecided_fails):
            raise ValueError(
                'multiple_testing = "holm" needs decision = "confident" and on_inconclusive = '
                '"warn" or "pass": it turns breaches that chance may explain into inconclusive '
                "gates, which makes no difference otherwise"
            )
        return self
