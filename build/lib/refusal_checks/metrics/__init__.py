"""Figures over records. A metric's name is its key in threshold files.

A metric scores each prompt from its answers; the figure is the share of prompts whose score counts,
or the mean score. To add one, put a decorated function that scores one prompt into a new module of
this package. Users read its docstring.

Answers without a verdict count in ``invalid_rate`` only. A prompt is scored by its valid answers,
and has no score without any.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from refusal_checks.metrics.base import METRICS, Metric, by_prompt, main_metric, score_all

# Before refusal: harm_score is what is broken down where both are known.
from refusal_checks.metrics.graded import harm_score, safety_score
from refusal_checks.metrics.refusal import confidence, rejection_rate
from refusal_checks.metrics.worst_case import metric_limits, score_limits, worst_cases

__all__ = [
    "METRICS",
    "Metric",
    "by_prompt",
    "confidence",
    "harm_score",
    "main_metric",
    "metric_limits",
    "rejection_rate",
    "safety_score",
    "score_all",
    "score_limits",
    "worst_cases",
]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
