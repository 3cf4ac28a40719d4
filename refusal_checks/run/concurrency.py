"""How many prompts are evaluated at one time: enough to keep the engines full, and no more."""

from __future__ import annotations

import math

from refusal_checks.engines import kinds
from refusal_checks.models.spec import Served
from refusal_checks.run.options.command_line import Options

LEAST = 64
"""Prompts at one time where nothing else is known, as of servers that others run."""


def prompts_at_once(options: Options, copies: int = 1) -> int:
    """Prompts that are answered or judged at one time.

    Twice as many answers as the engines run sequences: a prompt's answers come when the slowest of
    them does, so on average half of them are running.

    Args:
        copies: of each model, that were added to what the options ask for.
    """
    limits = options.limits
    if limits.in_flight is not None:
        return limits.in_flight
    if options.stop_early:
        return LEAST  # what is in flight when a benchmark stops is for nothing
    models = (options.candidate, *(judge.model for judge in options.judges))
    widest = max((_sequences(model) for model in models if isinstance(model, Served)), default=0)
    return max(LEAST, math.ceil(2 * widest * copies / options.sampling.samples))


def _sequences(model: Served) -> int:
    engine = kinds.get(model.engine)
    return engine.sequences(model.args) * engine.parallel(model.args).copies
