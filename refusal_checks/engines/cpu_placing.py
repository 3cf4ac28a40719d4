"""Place engines on CPU cores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from refusal_checks.core.errors import UserError
from refusal_checks.core.text import count
from refusal_checks.engines.devices import Devices
from refusal_checks.engines.engine import Assignment
from refusal_checks.engines.placement import EngineNeed, PlacementRequest
from refusal_checks.engines.pools import Places, pools

USABLE = 0.8
"""Share of the free memory that engines may plan with."""

OVERHEAD = 2.5
"""GiB that each rank of an engine needs besides weights and cache: vLLM and torch themselves."""

LEAST_CACHE = 1
"""GiB of each rank's cache at least."""

TOY = 0.1
"""GiB of weights below which a model's server spends more on HTTP and Python than on computing."""

FEW = 4
"""Cores up to which one less to compute with costs more than a server that has to wait for one."""


class Cores:
    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        cores = count(len(devices.ids), "CPU core")
        self.name = f"{cores} with {devices.memory or 0:.0f} GiB free"

    def fit_apart(self, needs: Sequence[EngineNeed]) -> bool:
        return False  # only the user splits cores; see ``fit_together``

    def fit_together(self, needs: Sequence[EngineNeed]) -> bool:
        memory = self._devices.memory or math.inf
        if sum(map(memory_of, needs)) > USABLE * memory:
            return False
        writers = [need for need in needs if not need.classifies]
        return len(self._devices.ids) >= len(writers)

    def apart(self, needs: Sequence[EngineNeed], request: PlacementRequest) -> Places:
        places: Places = {}
        for ids, group in pools(self._devices, needs, request).items():
            if len(ids) < len(group):
                names = ", ".join(need.name for need in group)
                raise UserError(
                    f"{names}: {count(len(group), 'engine')} for {count(len(ids), 'core')}: use "
                    "--set engine.placement=turns"
                )
            for number, need in enumerate(group):
                places[need] = self._place(need, ids[number :: len(group)], needs)
        return places

    def together(
        self, needs: Sequence[EngineNeed], request: PlacementRequest
    ) -> Places:
        """Share a few cores between all engines, which are rarely busy at once; divide more cores.

        On two cores, two models of 135 M parameters are 1.5 times as fast sharing both as with a
        core each. A classifier beside a generating model is busy a small part of the time: it gets
        all cores, and one thread.
        """
        ids = self._devices.ids
        busy = [need for need in needs if not need.classifies] or list(needs)
        are_few = len(ids) <= FEW and all(need.parallel.ranks == 1 for need in busy)
        if are_few or len(ids) < len(busy):
            places = {}
            for need in busy:
                place = self._place(need, ids, needs)
                places[need] = replace(place, shared=len(busy) > 1)
        else:
            places = self.apart(busy, PlacementRequest())
        for need in needs:
            if need not in places:
                places[need] = replace(self._place(need, ids, needs), threads=1)
        return places

    def _place(
        self, need: EngineNeed, ids: Sequence[str], needs: Sequence[EngineNeed]
    ) -> Assignment:
        return Assignment(
            cores=tuple(map(int, ids)),
            cache=self._cache(need, needs),
            threads=self._threads(need, len(ids)),
        )

    def _cache(self, need: EngineNeed, needs: Sequence[EngineNeed]) -> int:
        """Size of the cache in GiB: half of the weights, if there is room."""
        free = USABLE * (self._devices.memory or 0) - sum(map(memory_of, needs))
        room = LEAST_CACHE + free / sum(other.parallel.ranks for other in needs)
        useful = 4.0
        if need.weights is not None:
            useful = need.weights / need.parallel.shards / 2
        return max(LEAST_CACHE, math.floor(min(room, math.ceil(useful))))

    def _threads(self, need: EngineNeed, cores: int) -> int:
        """As many threads as cores, or one less: HTTP and the scheduler need time as well.

        On two cores, a second thread makes a model of 135 M parameters 1.6 times as fast. vLLM's
        worker processes (several ranks) leave the scheduler to another process.
        """
        ranks = need.parallel.ranks
        threads = max(1, math.floor(self._usable_cores(cores)))
        is_toy = need.weights is not None and need.weights < TOY
        if ranks == 1 and (is_toy or threads > FEW):
            threads -= 1
        return max(ranks, threads)

    def _usable_cores(self, cores: int) -> float:
        """CPU time, in cores, that an engine on this many cores can use."""
        all_cores = len(self._devices.ids)
        quota = all_cores if self._devices.quota is None else self._devices.quota
        return cores * min(1.0, quota / all_cores)


def memory_of(need: EngineNeed) -> float:
    """GiB that an engine takes with the smallest cache."""
    weights = (need.weights or 0.0) * need.parallel.copies
    return weights + (OVERHEAD + LEAST_CACHE) * need.parallel.ranks
