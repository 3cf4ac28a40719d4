"""The bounds of a gate in a run file: ``{ min = 0.80, max_drop = 0.05 }``."""

from __future__ import annotations

import datetime

from pydantic import Field, ValidationInfo, field_validator, model_validator

from refusal_checks.core.settings import Frozen
from refusal_checks.core.suggestions import write_share
from refusal_checks.gates.gate import (
    MARGINS,
    Decision,
    OnInconclusive,
    Waiver,
)
from refusal_checks.io.extensions import OWN, module_origin
from refusal_checks.metrics import Metric


class Bounds(Frozen):
    """``{ min = ..., max = ... }`` as written: at least one bound, or only a waiver.

    Attributes:
        min: lowest figure allowed.
        max: highest figure allowed.
        max_drop: how far the figure may fall against the baseline.
        max_rise: how far it may rise.
        decision, on_inconclusive: as in ``[settings]``, for this gate.
        rationale, source: why these bounds were chosen, shown in reports.
        date: when they were chosen.
        waive: lets the gate fail until a date; without bounds, it waives another table's gate.
    """

    min: float | None = None
    max: float | None = None
    max_drop: float | None = Field(None, ge=0)
    max_rise: float | None = Field(None, ge=0)
    decision: Decision | None = None
    on_inconclusive: OnInconclusive | None = None
    rationale: str = ""
    source: str = ""
    date: datetime.date | str = ""
    waive: Waiver | None = None

    @field_validator("min", "max", *MARGINS)
    @classmethod
    def _is_possible(cls, value: float | None, info: ValidationInfo) -> float | None:
        """Check that the bounds suit the metric, which validation passes as its context."""
        if value is None or not info.context:
            return value
        metric: Metric = info.context["metric"]
        is_bound = info.field_name in ("min", "max")
        low, high = (metric.lowest, metric.highest) if is_bound else (0.0, metric.span)
        if not low <= value <= high:
            # A metric of an extension has the range [0, 1] unless it says otherwise.
            remedy = ""
            if module_origin(metric.score.__module__) != OWN:
                remedy = f"declare the range of {metric.name} (highest=...): "
            elif high == 1 and 2 <= value <= 100:  # per cent
                remedy = f"write {write_share(value)}: "
            raise ValueError(f"{remedy}{value:g} is outside [{low:g}, {high:g}]")
        return value

    @model_validator(mode="after")
    def _bounds_something(self) -> Bounds:
        ends = [getattr(self, name) for name in ("min", "max", *MARGINS)]
        if all(end is None for end in ends) and not self.only_waives:
            raise ValueError("add min, max, max_drop or max_rise")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min:g} is above max {self.max:g}")
        return self

    @property
    def only_waives(self) -> bool:
        """True if it waives a gate whose bounds are in another table."""
        return self.waive is not None and self.model_fields_set == {"waive"}

    def waiver(self, source: str) -> Waiver | None:
        """The waiver that this run file grants, if any."""
        return self.waive.model_copy(update={"source": source}) if self.waive else None

    @property
    def provenance(self) -> str:
        """Rationale, source and date in one line; empty without any."""
        origin = ", ".join(part for part in (self.source, str(self.date)) if part)
        if self.rationale and origin:
            return f"{self.rationale} ({origin})"
        return self.rationale or origin
