"""Engines on a CPU: each one's cores, and the memory for its cache."""

from __future__ import annotations

import math
from collections.abc import Sequence

from refusal_checks.core.errors import UserError
from refusal_checks.engines.placement.hardware import pools
from refusal_checks.engines.placement.values import (
    Assignment,
    Devices,
    EngineNeed,
    PlacementRequest,
)

USABLE = 0.8
"""Share of the free memory that engines may plan with."""

BESIDES = 2.5
"""GiB that each rank of an engine needs besides weights and cache: vLLM and torch themselves."""


class Cores:
    """The cores of a CPU; to share them is to have some each."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices

    @property
    def name(self) -> str:
        """See ``Hardware.name``."""
        count = len(self._devices.ids)
        return f"{count} CPU core{'s' * (count != 1)} with {self._devices.memory or 0:.0f} GiB free"

    def fit_apart(self, demands: Sequence[EngineNeed]) -> bool:
        """See ``Hardware.fit_apart``: not unless the user says so, see ``fit_together``."""
        return False

    def fit_together(self, demands: Sequence[EngineNeed]) -> bool:
        """See ``Hardware.fit_together``."""
        enough = sum(map(_needed, demands)) <= USABLE * (self._devices.memory or math.inf)
        return enough and len(self._devices.ids) >= len(demands)

    def apart(self, demands: Sequence[EngineNeed], wish: PlacementRequest) -> list[Assignment]:
        """See ``Hardware.apart``."""
        places: dict[EngineNeed, Assignment] = {}
        for ids, own in pools(self._devices, demands, wish):
            if len(ids) < len(own):
                what = ", ".join(demand.name for demand in own)
                raise UserError(
                    f"{what}: {len(own)} engines for {len(ids)} cores: use --placement turns"
                )
            for number, demand in enumerate(own):
                places[demand] = self._place(demand, ids[number :: len(own)], demands)
        return [places[demand] for demand in demands]

    def together(self, demands: Sequence[EngineNeed]) -> list[Assignment]:
        """See ``Hardware.together``; with fewer cores than engines each one has all."""
        if len(self._devices.ids) >= len(demands):
            return self.apart(demands, PlacementRequest())
        return [self._place(demand, self._devices.ids, demands) for demand in demands]

    def _place(
        self, demand: EngineNeed, ids: Sequence[str], demands: Sequence[EngineNeed]
    ) -> Assignment:
        ranks = demand.parallel.ranks
        env = {"VLLM_CPU_KVCACHE_SPACE": str(self._cache(demand, demands))}
        if ranks == 1:
            # A core is left to the scheduler, as where vLLM binds threads itself, which it does for
            # worker processes alone: without those it would compute with one thread.
            env["OMP_NUM_THREADS"] = str(max(1, len(ids) - 1))
        else:  # by itself vLLM wants a NUMA node for each
            bound = "|".join(",".join(ids[rank::ranks]) for rank in range(ranks))
            env["VLLM_CPU_OMP_THREADS_BIND"] = bound if len(ids) >= ranks else "nobind"
        own = () if tuple(ids) == self._devices.ids else tuple(map(int, ids))
        return Assignment(env=env, cores=own)

    def _cache(self, demand: EngineNeed, demands: Sequence[EngineNeed]) -> int:
        """GiB of cache of each rank: half of what the weights take, as far as there is room."""
        free = USABLE * (self._devices.memory or 0) - sum(map(_needed, demands))
        room = 1 + free / sum(other.parallel.ranks for other in demands)
        wanted = 4.0 if demand.weights is None else demand.weights / demand.parallel.shards / 2
        return max(1, math.floor(min(room, math.ceil(wanted))))


def _needed(demand: EngineNeed) -> float:
    """GiB of an engine with the smallest cache."""
    parallel = demand.parallel
    return (demand.weights or 0.0) * parallel.copies + (BESIDES + 1) * parallel.ranks
