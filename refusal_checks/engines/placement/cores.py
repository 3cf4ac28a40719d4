"""Engines on a CPU: each one's cores, and the memory for its cache."""

from __future__ import annotations

import math
from collections.abc import Sequence

from refusal_checks.core.errors import UserError
from refusal_checks.engines.placement.devices import pools
from refusal_checks.engines.placement.values import (
    Assignment,
    Devices,
    EngineNeed,
    PlacementRequest,
)

USABLE = 0.8
"""Share of the free memory that engines may plan with."""

OVERHEAD = 2.5
"""GiB that each rank of an engine needs besides weights and cache: vLLM and torch themselves."""

TOY = 0.1
"""GiB of weights below which a model's server spends more on HTTP and Python than on computing."""

FEW = 4
"""Cores up to which one less to compute with costs more than a server that has to wait for one."""


class Cores:
    """The cores of a CPU; to share them is to have some each."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices

    @property
    def name(self) -> str:
        """The cores, for people."""
        count = len(self._devices.ids)
        return f"{count} CPU core{'s' * (count != 1)} with {self._devices.memory or 0:.0f} GiB free"

    def fit_apart(self, needs: Sequence[EngineNeed]) -> bool:
        """False: only the user splits cores; see ``fit_together``."""
        return False

    def fit_together(self, needs: Sequence[EngineNeed]) -> bool:
        """True if there are cores and memory for all."""
        enough = sum(map(_needed, needs)) <= USABLE * (self._devices.memory or math.inf)
        return enough and len(self._devices.ids) >= len(needs)

    def apart(self, needs: Sequence[EngineNeed], request: PlacementRequest) -> list[Assignment]:
        """Give each engine cores of its own.

        Raises:
            UserError: there are too few.
        """
        places: dict[EngineNeed, Assignment] = {}
        for ids, group in pools(self._devices, needs, request):
            if len(ids) < len(group):
                names = ", ".join(need.name for need in group)
                raise UserError(
                    f"{names}: {len(group)} engines for {len(ids)} cores: use --placement turns"
                )
            for number, need in enumerate(group):
                places[need] = self._place(need, ids[number :: len(group)], needs)
        return [places[need] for need in needs]

    def together(self, needs: Sequence[EngineNeed]) -> list[Assignment]:
        """Divide the cores; if there are fewer than engines, each one has all."""
        if len(self._devices.ids) >= len(needs):
            return self.apart(needs, PlacementRequest())
        return [self._place(need, self._devices.ids, needs) for need in needs]

    def _place(
        self, need: EngineNeed, ids: Sequence[str], needs: Sequence[EngineNeed]
    ) -> Assignment:
        """The cache is half of the weights' size, as far as there is room; at least 1 GiB."""
        free = USABLE * (self._devices.memory or 0) - sum(map(_needed, needs))
        room = 1 + free / sum(other.parallel.ranks for other in needs)
        wanted = 4.0 if need.weights is None else need.weights / need.parallel.shards / 2
        cache = max(1, math.floor(min(room, math.ceil(wanted))))
        threads = self._threads(need, len(ids))
        return Assignment(cores=tuple(map(int, ids)), cache=cache, threads=threads)

    def _threads(self, need: EngineNeed, cores: int) -> int:
        """As many as it has cores, or one less: HTTP and the scheduler have work to do as well.

        On two cores a second thread makes a model of 135 M parameters 1.6 times as fast. vLLM's
        worker processes, of engines with several ranks, leave the scheduler to another process.
        """
        if self._devices.quota is not None:
            share = self._devices.quota * cores / len(self._devices.ids)
            cores = min(cores, max(1, math.floor(share)))
        is_toy = need.weights is not None and need.weights < TOY
        spares = need.parallel.ranks == 1 and (is_toy or cores > FEW)
        return max(need.parallel.ranks, cores - spares)


def _needed(need: EngineNeed) -> float:
    """GiB of an engine with the smallest cache."""
    return (need.weights or 0.0) * need.parallel.copies + (OVERHEAD + 1) * need.parallel.ranks


def fit_beside(
    devices: Devices,
    more: Sequence[tuple[EngineNeed, Assignment]],
    running: Sequence[tuple[EngineNeed, Assignment]],
) -> bool:
    """True if more engines can load where others work, whose caches may still fill.

    Each needs weights of a known size, memory for them, and a core without a computing thread.

    Args:
        devices: with the memory that is free while the others run.
    """
    if not all(need.weights and _has_spare_core(place, devices) for need, place in more):
        return False
    caches = sum((place.cache or 0) * need.parallel.ranks for need, place in (*more, *running))
    others = sum(_needed(need) - need.parallel.ranks for need, _ in more)
    return caches + others <= USABLE * (devices.memory or math.inf)


def _has_spare_core(place: Assignment, devices: Devices) -> bool:
    usable = float(len(place.cores))
    if devices.quota is not None:
        usable *= min(1.0, devices.quota / len(devices.ids))
    return place.threads is not None and place.threads + 1 <= usable
