"""A gate's figure: a metric over some records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refusal_checks.core.records import Record
from refusal_checks.metrics import Metric
from refusal_checks.metrics.statistics.intervals import Estimate


@dataclass(frozen=True)
class EstimateSet:
    """A metric over the records that a gate looks at."""

    metric: Metric
    records: Sequence[Record]

    @property
    def is_share(self) -> bool:
        """True if the figure counts whole prompts."""
        scores = self.metric.scores(self.records).values()
        return self.metric.counts_prompts(self.metric.values(scores))

    def estimate(self, level: float) -> Estimate:
        return self.metric.estimate(self.records, level)
