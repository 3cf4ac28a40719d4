"""Engines that load on a CPU where others work."""

from __future__ import annotations

import pytest

from refusal_checks.engines.base import Assignment
from refusal_checks.engines.devices import Devices
from refusal_checks.engines.placement import EngineNeed, fit_beside

SMALL = EngineNeed("org/candidate", weights=1.0)
JUDGE = EngineNeed("org/judge", weights=3.0, answers=False, judges=True)


@pytest.mark.parametrize(("memory", "fits"), [(9.4, True), (9.3, False)])
def test_an_engine_fits_beside_others_if_their_caches_may_fill(memory: float, fits: bool) -> None:
    place = Assignment(cache=2, cores=(0, 1), threads=1)
    running = [(SMALL, place), (JUDGE, Assignment())]
    machine = Devices("cpu", ("0", "1"), memory)
    assert fit_beside(machine, [(SMALL, place)], running) is fits, "1 + 2.5 + 2, and 2"


@pytest.mark.parametrize(
    ("threads", "quota", "fits"), [(3, None, True), (4, None, False), (3, 7.9, False)]
)
def test_an_engine_fits_beside_others_if_they_leave_a_core(
    threads: int, quota: float | None, fits: bool
) -> None:
    place = Assignment(cache=1, cores=(0, 1, 2, 3), threads=threads)
    machine = Devices("cpu", tuple(map(str, range(8))), 22.0, quota=quota)
    assert fit_beside(machine, [(SMALL, place)], []) is fits
