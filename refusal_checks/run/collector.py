"""Python's collector of cycles, kept from what an evaluation piles up."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

RARELY = (20_000, 20, 100)
"""Thresholds of the three generations. A run keeps hundreds of thousands of values without cycles;
walking them as often as is usual takes a third of an evaluation's time."""


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Within it cycles are looked for less often, in the whole process."""
    usual = gc.get_threshold()
    gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
