"""What a run knows about answers besides its judge's verdicts, and the rates that follow.

The judge's own verdicts give the ``raw`` rate. The one that combines it with ``human`` labels of
some answers is closer to what people would say. ``Evidence.rate`` decides once which of them a gate
rests on: its figure, its worst cases, the prompts compared with an earlier run and its sentence all
come from one ``EstimateSet``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Binary
from refusal_checks.gates.estimate_set import EstimateSet, EstimateVariant
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.paired_scores import labelled
from refusal_checks.judges.trust.labels import BenchmarkLabels
from refusal_checks.metrics import METRICS, Metric


@dataclass(frozen=True)
class Evidence:
    """What a run knows about a benchmark's answers besides its judge's verdicts."""

    labels: BenchmarkLabels | None = None

    def rate(
        self, gate: Gate, records: Sequence[Record], level: float = 0.95
    ) -> EstimateSet:
        """A gate's figure over the records that it covers, with the variant that decides."""
        metric = METRICS[gate.metric]
        views = tuple(self._views(metric, gate, records, level))
        used = next(
            (view for view in views if view.use == "human" and view.decides), None
        )
        people = {}
        if used and self.labels:
            people = self.labels.scores(metric, records)
        return EstimateSet(metric, records, views, used, people)

    def _views(
        self, metric: Metric, gate: Gate, records: Sequence[Record], level: float
    ) -> list[EstimateVariant]:
        """The raw rate and the one by labels; empty without labels."""
        # Human labels are refusal or compliance, as are Binary verdicts.
        is_refusal = Binary in metric.reads and metric.blurred
        if not is_refusal or not any(isinstance(r.judgement, Binary) for r in records):
            return []
        if not self.labels or not self.labels.draws:
            return []
        found = labelled(self.labels.of(records, metric), gate, records, level)
        judged = metric.estimate(records, level)
        if isinstance(found, str):  # why labels give no rate
            return [EstimateVariant("raw", judged, found)]
        return [EstimateVariant("raw", judged), found]
