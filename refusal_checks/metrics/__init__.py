"""Figures over records. A metric's name is its key in run files.

A metric scores each prompt from its answers. Its figure is the share of prompts whose score counts,
or of answers, or the mean score. To add one, put a decorated function that scores one prompt into a
new module of this package. Its docstring is part of the documentation.

Answers without a verdict count only in ``invalid_rate``. A prompt is scored by its valid answers,
and has no score if there are none.
"""

from importlib import import_module
from pkgutil import iter_modules

from refusal_checks.metrics.metric import METRICS as METRICS
from refusal_checks.metrics.metric import Metric as Metric
from refusal_checks.metrics.metric import group_by_prompt as group_by_prompt
from refusal_checks.metrics.metric import main_metric as main_metric
from refusal_checks.metrics.metric import score_all as score_all
from refusal_checks.metrics.refusal_rates import confidence as confidence
from refusal_checks.metrics.refusal_rates import rejection_rate as rejection_rate
from refusal_checks.metrics.safety_ratings import safety_score as safety_score
from refusal_checks.metrics.worst_case import metric_limits as metric_limits
from refusal_checks.metrics.worst_case import score_limits as score_limits
from refusal_checks.metrics.worst_case import worst_cases as worst_cases

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
