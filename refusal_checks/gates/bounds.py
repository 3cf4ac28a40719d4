"""What a threshold file may say of a gate, and of all gates: its bounds and how it decides."""

from __future__ import annotations

import datetime
from typing import Literal

from pydantic import Field, model_validator

from refusal_checks.core.settings import Frozen

Decision = Literal["point", "confident"]
"""Whether the figure itself must be within the bounds, or its interval."""

OnInconclusive = Literal["pass", "warn", "fail"]
"""What becomes of a test whose gate the figures do not decide."""


Use = Literal["raw", "corrected", "human"]
"""Which rate decides a gate: the judge's, the one corrected for its errors, or that with human
labels of a part of the answers."""

CORRECTED = "rejection_rate"
"""The metric that a calibration corrects: what it knows are errors about refusals."""


class Bounds(Frozen):
    """``{ min = ..., max = ... }`` as written; at least one bound.

    Attributes:
        min, max: bounds on the figure, inclusive.
        max_drop, max_rise: how far the figure may fall or rise against the baseline, at least 0.
        decision, on_inconclusive, use, allow_transferred: for this gate alone; the ``[settings]``
            hold for the others.
        rationale, source, date: why the bounds are what they are, in the file's own words.
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

    @model_validator(mode="after")
    def _ordered(self) -> Bounds:
        if all(bound is None for bound in (self.min, self.max, self.max_drop, self.max_rise)):
            raise ValueError("needs min or max, max_drop or max_rise")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min:g} is above max {self.max:g}")
        return self

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
        on_inconclusive: what an undecided gate's test does; usually the point decides where it
            may, and the test fails where confidence is asked for.
        correction: ``holm`` holds the probability of calling any gate of a benchmark breached
            that is not at 1 - confidence, however many there are.
        use: ``corrected`` decides rejection rates by the one that a calibration of the judge gives,
            ``raw`` by the judge's though there are human labels.
        allow_transferred: decide by a calibration on another candidate's answers all the same.
    """

    confidence: float = Field(0.95, gt=0, lt=1)
    decision: Decision = "point"
    on_inconclusive: OnInconclusive | None = None
    correction: Literal["none", "holm"] = "none"
    use: Literal["raw", "corrected"] | None = None
    allow_transferred: bool = False

    @model_validator(mode="after")
    def _holm_changes_something(self) -> GateSettings:
        undecided_fails = self.on_inconclusive in (None, "fail")
        if self.correction == "holm" and (self.decision == "point" or undecided_fails):
            raise ValueError(
                'correction = "holm" makes a breach inconclusive that many gates explain, which '
                'changes nothing without decision = "confident" and on_inconclusive = "warn" or '
                '"pass"'
            )
        return self

    def decision_of(self, bounds: Bounds) -> Decision:
        """How a gate with these bounds decides."""
        return bounds.decision or self.decision

    def use_of(self, bounds: Bounds, metric: str) -> Literal["raw", "corrected"] | None:
        """Which rate decides such a gate; None for the judge's, or that with labels if any."""
        use = bounds.use or self.use
        return None if use == "corrected" and metric != CORRECTED else use

    def allows_transferred(self, bounds: Bounds) -> bool:
        """Whether a calibration on another candidate's answers may decide such a gate."""
        own = bounds.allow_transferred
        return self.allow_transferred if own is None else own

    def on_inconclusive_of(self, bounds: Bounds) -> OnInconclusive | None:
        """What such a gate does where nothing is decided; None for what is usual."""
        return bounds.on_inconclusive or self.on_inconclusive
