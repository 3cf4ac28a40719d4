"""Tables of the benchmarks and metrics of the package."""

from __future__ import annotations

import re
from inspect import cleandoc

from refusal_checks.benchmarks import Benchmark, discover
from refusal_checks.io.extensions import OWN, module_origin
from refusal_checks.metrics import METRICS, Metric
from tools.docs_site.markdown import code, sentence, table


def as_table() -> str:
    """List all benchmarks with marker, way of judging and description."""
    head = ("benchmark", "marker", "judged as", "what it is")
    return table(head, [_benchmark(*item) for item in sorted(discover().items())])


def _benchmark(name: str, benchmark: Benchmark) -> tuple[str, ...]:
    marker = code(benchmark.kind.value)
    return code(name), marker, code(benchmark.judge), sentence(benchmark.description)


def metrics_table() -> str:
    """List the package's own metrics with meaning, range and interval."""
    own = [metric for metric in METRICS.values() if _is_own(metric)]
    head = ("metric", "what it is", "range", "interval")
    return table(head, [_metric(metric) for metric in own])


def _is_own(metric: Metric) -> bool:
    return module_origin(metric.score.__module__) == OWN


def _metric(metric: Metric) -> tuple[str, ...]:
    interval = "bounded" if metric.counts in (None, float) else "Wilson"
    docstring = cleandoc(metric.score.__doc__ or "").replace("``", "`")
    scale = f"{metric.lowest:g} to {metric.highest:g}"
    return code(metric.name), _linked(docstring), scale, interval


def _linked(text: str) -> str:
    """Link the papers that the text names."""
    arxiv = r"arXiv ([0-9]{4}\.[0-9]{5})"
    return re.sub(arxiv, r"[arXiv \1](https://arxiv.org/abs/\1)", text)
