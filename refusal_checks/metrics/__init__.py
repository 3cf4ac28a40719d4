"""Figures over records. Each metric's name is its key in threshold files.

A metric scores each prompt from its answers, and the figure is either the share of prompts whose
score counts, or the mean score. To add one, write the function that scores a prompt into a module
of this package and decorate it; its docstring is what users read.

Answers without a verdict are left out of every score but ``invalid_rate``'s; a prompt with some
valid answers is scored by those, and a prompt with none has no score.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from refusal_checks.metrics.base import (
    METRICS,
    Metric,
    by_prompt,
    score_all,
    worst_cases,
    worst_names,
)
from refusal_checks.metrics.rating import safety_score
from refusal_checks.metrics.refusal import confidence, rejection_rate

__all__ = [
    "METRICS",
    "Metric",
    "by_prompt",
    "confidence",
    "rejection_rate",
    "safety_score",
    "score_all",
    "worst_cases",
    "worst_names",
]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
