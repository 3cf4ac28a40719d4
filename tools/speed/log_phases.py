"""The phases of an engine's start, read from the lines of vLLM's log and when each one came."""

from __future__ import annotations

import re
from collections.abc import Sequence

Line = tuple[float, str]
"""Seconds since the launch, and a line of the log."""

MARKS = (
    ("import of the server", r"non-default args:"),
    ("import and setup of the engine's process", r"Starting to load model"),
    ("weights", r"Loading weights took"),
    (
        "cache and warm-up",
        r"init engine \(profile, create kv cache, warmup model\) took",
    ),
    ("HTTP server", r"Starting vLLM (?:API )?server"),
)
"""The phases in their order, each with the line that ends it."""

READY = "first health check"
"""The last phase, which a request ends."""


def phases(lines: Sequence[Line], ready: float) -> dict[str, float]:
    """Seconds of each phase, in order; their sum is ``ready``.

    A phase whose line is missing counts to the one after it.

    Args:
        ready: seconds from the launch to the first good health check.
    """
    found: dict[str, float] = {}
    begun = 0.0
    for name, pattern in MARKS:
        ended = next((when for when, line in lines if re.search(pattern, line)), None)
        if ended is not None and begun <= ended <= ready:
            found[name] = ended - begun
            begun = ended
    return found | {READY: ready - begun}
