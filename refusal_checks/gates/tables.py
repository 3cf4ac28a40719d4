"""What a run file's tables may contain: bounds of gates, common settings, keys of data."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationInfo, field_validator, model_validator

from refusal_checks import judges
from refusal_checks.benchmarks import Benchmark
from refusal_checks.benchmarks.custom import KINDS
from refusal_checks.core.errors import ThresholdError, require_known
from refusal_checks.core.extensions import OWN, origin
from refusal_checks.core.settings import BenchmarkTable, Frozen
from refusal_checks.core.suggestions import near, share
from refusal_checks.core.verdicts import Chosen
from refusal_checks.gates.gate import (
    MARGINS,
    WAIVER,
    Decision,
    Gate,
    GateKey,
    OnInconclusive,
    Waiver,
)
from refusal_checks.metrics import METRICS, Metric


class Bounds(Frozen):
    """``{ min = ..., max = ... }`` as written; at least one bound, or a waiver and nothing else.

    Attributes:
        min: lowest figure allowed.
        max: highest figure allowed.
        max_drop: how far the figure may fall against the baseline.
        max_rise: how far it may rise.
        decision, on_inconclusive: as in ``[settings]``, for this gate.
        rationale, source: why these bounds were chosen, shown in reports.
        date: when they were chosen.
        waive: lets the gate fail until a day; without bounds, it applies to another table's gate.
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
        """Check that the bounds suit the metric, which is the validation's context."""
        if value is None or not info.context:
            return value
        metric: Metric = info.context["metric"]
        is_bound = info.field_name in ("min", "max")
        low, high = (metric.lowest, metric.highest) if is_bound else (0.0, metric.span)
        if not low <= value <= high:
            remedy = ""
            if origin(metric.score.__module__) != OWN:
                remedy = f"declare the range of {metric.name} (highest=...): "
            elif high == 1 and 2 <= value <= 100:
                remedy = f"write {share(value)}: "
            raise ValueError(f"{remedy}{value:g} is outside [{low:g}, {high:g}]")
        return value

    @model_validator(mode="after")
    def _bounds_something(self) -> Bounds:
        ends = [getattr(self, name) for name in ("min", "max", *MARGINS)]
        if all(end is None for end in ends) and not self.only_waives:
            raise ValueError("write min, max, max_drop or max_rise")
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


class GateSettings(Frozen):
    """What the ``[settings]`` table may hold.

    Attributes:
        confidence: level of intervals (two-sided) and comparisons (one-sided).
        decision: ``point`` compares the figure with the bounds, ``confident`` its interval.
        on_inconclusive: what an inconclusive gate does; by default it goes by its figure where
            ``decision`` is ``point``, and fails otherwise.
        require_baseline: refuse a run whose margins have no baseline; otherwise they are skipped.
        require_all: a run in which ``-k`` or ``-m`` left gates out shows only a part.
    """

    confidence: float = Field(0.95, ge=0.5, lt=1)
    decision: Decision = "point"
    on_inconclusive: OnInconclusive | None = None
    require_baseline: bool = False
    require_all: bool = False


def gate_of(key: GateKey, source: str, bounds: Bounds, settings: GateSettings) -> Gate:
    """The gate that bounds in a run file define."""
    benchmark, metric, group_kind, group = key
    inherited = {"decision", "on_inconclusive"}
    if not METRICS[metric].sampled:
        # All of the run's own answers are known: such a figure decides a gate by itself.
        inherited = set()
    fields = settings.model_dump(include=inherited)
    fields |= bounds.model_dump(
        include={"decision", "on_inconclusive"}, exclude_none=True
    )
    return Gate(
        benchmark,
        metric,
        min=bounds.min,
        max=bounds.max,
        group_kind=group_kind,
        group=group,
        source=source,
        max_drop=bounds.max_drop,
        max_rise=bounds.max_rise,
        provenance=bounds.provenance,
        waiver=bounds.waiver(source),
        **fields,
    )


def where_of(source: str, key: GateKey) -> str:
    """Say where a gate is written: file, table and key."""
    benchmark, metric, kind, group = key
    table = ".".join(part for part in (benchmark, kind, group) if part)
    return f"{source}: [{table}] {metric}"


_OTHER_NAMES = {
    "attack_success_rate": "compliance_rate",
    "asr": "compliance_rate",
    "over_refusal_rate": "rejection_rate",
    "refusal_rate": "rejection_rate",
}
"""What the field calls our metrics. No similar name would be the right one."""


def read_bounds(
    path: Path, key: GateKey, value: Any, metrics: Sequence[str]
) -> Bounds | None:
    """Read the bounds of a gate on one of the known metrics; None if the file removes the gate."""
    benchmark, name, kind, _ = key
    where = where_of(str(path), key)
    if name == "waive":
        raise ThresholdError(
            f"{where}: move it into the table of the gate that may fail: "
            f"METRIC = {{ waive = {WAIVER} }}"
        )
    meant = _OTHER_NAMES.get(name)
    if meant in metrics:
        raise ThresholdError(f"{where}: write {meant}, as this metric is called here")
    is_setting = kind is None and not isinstance(value, Mapping | bool)
    if is_setting and name not in METRICS and not near(name, metrics):
        fields = sorted(BenchmarkTable.model_fields)
        raise ThresholdError(
            f"{where}: no such key{near(name, fields)} (known: metrics, {', '.join(fields)})"
        )
    require_known(name, metrics, where, f"{benchmark} metric")
    if value is False:
        return None
    if not isinstance(value, dict):
        number = value if isinstance(value, float) else "..."
        raise ThresholdError(
            f"{where} = {value!r}: write {{ min = {number} }} or {{ max = {number} }}"
        )
    return Bounds.read(value, where, ThresholdError, {"metric": METRICS[name]})


FOR_ANY = frozenset({"sha256", "limit", "max_answer_chars", "judge"})
"""Keys of ``BenchmarkTable`` that also apply to the package's own benchmarks."""


def read_tables(
    parsed: Mapping[Path, Mapping[str, Any]], benchmarks: Collection[str]
) -> dict[str, BenchmarkTable]:
    """Read the keys of benchmarks' tables that are not gates; later files win key by key."""
    merged: dict[str, dict[str, Any]] = {}
    places: dict[str, str] = {}  # the last tables that say where the prompts are
    for path, content in parsed.items():
        for name, table in content.items():
            where = f"{path}: [{name}]"
            if name not in places or {"file", "dataset"} & table.keys():
                places[name] = where
            values = {key: value for key, value in table.items() if is_data(key, value)}
            BenchmarkTable.read(values, where, ThresholdError)
            own = sorted(values.keys() - FOR_ANY)
            if name in benchmarks and own:
                raise ThresholdError(
                    f"{where} {own[0]}: rename your benchmark: {name} brings its own data"
                )
            for key in {"file", "rubric"} & values.keys():
                values[key] = str(path.parent / values[key])
            merged.setdefault(name, {}).update(values)
    return {
        name: BenchmarkTable.written(values, places[name])
        for name, values in merged.items()
    }


def is_data(key: str, value: Any) -> bool:
    """True if a key of a benchmark's table is about its data, not about gates.

    ``category`` and ``cluster`` can be either: a column, or a kind of group.
    """
    is_group = key in ("category", "cluster") and isinstance(value, dict)
    return key in BenchmarkTable.model_fields and not is_group


def holds_groups(key: str, value: Any) -> bool:
    """True if a key of a benchmark's table is a kind of group with gates on its groups."""
    is_table = key not in METRICS and isinstance(value, dict) and bool(value)
    return is_table and all(isinstance(group, dict) for group in value.values())


def metrics_of(
    where: str, table: BenchmarkTable, benchmark: Benchmark | None
) -> list[str]:
    """Names of a benchmark's metrics.

    If the file does not say the benchmark's kind, the metrics of all kinds count. The benchmark is
    None if the table defines it.
    """
    kinds = judges.discover()
    plain = "multiple_choice" if table.options else Benchmark.judge
    own = benchmark.judge if benchmark else plain
    name = table.judge or own
    require_known(name, kinds, f"{where} judge", "way of judging")
    reads = kinds[name].verdicts
    if reads is Chosen and (own not in kinds or kinds[own].verdicts is not Chosen):
        raise ThresholdError(
            f'{where} judge = "{name}": choose another way of judging; this one is for '
            "multiple-choice questions, and the prompts have no options"
        )
    kind = benchmark.kind if benchmark else KINDS.get(table.expect or "")
    names = []
    for metric in METRICS.values():
        is_of_kind = kind is None or kind in metric.kinds
        if is_of_kind and reads in metric.reads:
            names.append(metric.name)
    return names
