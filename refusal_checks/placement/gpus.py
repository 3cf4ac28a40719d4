"""Engines on GPUs: how many each one needs, and what part of the memory each one gets."""

from __future__ import annotations

from collections.abc import Sequence

from refusal_checks.errors import UserError
from refusal_checks.placement.hardware import pools
from refusal_checks.placement.values import Demand, Devices, Place, Wish

USABLE = 0.9
"""Share of a GPU's memory that engines may plan with, where others use none of it."""

SPARE = 0.05
"""Share that is left free beside what others use; vLLM does not start where less is free than it
is to have, and CUDA itself takes a part of that."""

BESIDES = 4.0
"""GiB that an engine needs on each GPU besides weights: CUDA itself, activations, a small cache."""


class Gpus:
    """GPUs, or devices of which nothing is known."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices

    @property
    def name(self) -> str:
        """See ``Hardware.name``."""
        if not self._devices.ids:
            return "devices that only vLLM knows"
        size = f" of {self._devices.memory:.0f} GiB" if self._devices.memory else ""
        return f"GPU {', '.join(self._devices.ids)}{size}{self._busy}"

    @property
    def _busy(self) -> str:
        busy = ",".join(self._devices.busy)
        hint = "CUDA_VISIBLE_DEVICES can name them all the same"
        return f" (others use GPU {busy}; {hint})" if busy else ""

    @property
    def _usable(self) -> float:
        """Share of a GPU's memory that engines may plan with."""
        return max(SPARE, min(USABLE, 1 - self._devices.used - SPARE))

    def fit_apart(self, demands: Sequence[Demand]) -> bool:
        """See ``Hardware.fit_apart``."""
        count = len(self._devices.ids)
        return sum(self._least(demand, count) for demand in demands) <= count

    def fit_together(self, demands: Sequence[Demand]) -> bool:
        """See ``Hardware.fit_together``; weights that are not known count nothing."""
        memory = self._devices.memory
        if memory is None:
            return True
        needed = sum(_weights(demand) + BESIDES for demand in demands)
        return needed <= self._usable * memory and all(
            _weights(demand) + BESIDES <= named * memory
            for demand in demands
            if (named := demand.parallel.memory) is not None
        )

    def apart(self, demands: Sequence[Demand], wish: Wish) -> list[Place]:
        """See ``Hardware.apart``; what is left over goes to where the load is greatest."""
        places: dict[Demand, Place] = {}
        for ids, own in pools(self._devices, demands, wish):
            for demand, part in zip(own, self._divide(ids, own, wish), strict=True):
                places[demand] = self._place(demand, part)
        return [places[demand] for demand in demands]

    def together(self, demands: Sequence[Demand]) -> list[Place]:
        """See ``Hardware.together``."""
        named = {demand: demand.parallel.memory for demand in demands}
        usable = self._usable - sum(filter(None, named.values()))
        sharing = [demand for demand, share in named.items() if share is None]
        shares = dict(zip(sharing, self._shares(sharing, max(usable, SPARE)), strict=True))
        devices = self._visible(self._devices.ids)
        return [
            Place(_memory(shares[demand]) if demand in shares else (), devices=devices)
            for demand in demands
        ]

    def _shares(self, demands: Sequence[Demand], usable: float) -> list[float]:
        """Each engine's part of the memory: its weights and an equal part of what is left."""
        memory = self._devices.memory
        if memory is None or any(demand.weights is None for demand in demands):
            return [usable / len(demands)] * len(demands)
        weights = [_weights(demand) for demand in demands]
        left = usable * memory - sum(weights)
        if left <= 0:
            return [usable * own / sum(weights) for own in weights]
        return [(own + left / len(demands)) / memory for own in weights]

    def _least(self, demand: Demand, count: int) -> int:
        """The fewest GPUs that hold it, ``count`` at most; a power of two, as models can be cut."""
        memory = self._devices.memory
        if demand.parallel.is_given:
            return demand.parallel.ranks
        if demand.weights is None or memory is None:
            return 1
        least = 1
        while demand.weights / least + BESIDES > self._usable * memory and 2 * least <= count:
            least *= 2
        return least

    def _divide(
        self, ids: Sequence[str], demands: Sequence[Demand], wish: Wish
    ) -> list[tuple[str, ...]]:
        if not ids and len(demands) == 1:
            return [()]
        counts = [self._least(demand, len(ids)) for demand in demands]
        if sum(counts) > len(ids):
            what = ", ".join(demand.name for demand in demands)
            raise UserError(
                f"{what}: {sum(counts)} GPUs needed and {len(ids)} there "
                f"({', '.join(ids) or 'none'}): give more with --candidate-devices or "
                "--judge-devices, or use --placement turns, or together" + self._busy
            )
        steps = list(counts)
        while growing := [
            number
            for number, demand in enumerate(demands)
            if _may_grow(demand, wish) and steps[number] <= len(ids) - sum(counts)
        ]:
            most = max(growing, key=lambda number: _load(demands[number]) / counts[number])
            counts[most] += steps[most]
        ends = [sum(counts[: number + 1]) for number in range(len(counts))]
        return [tuple(ids[end - count : end]) for end, count in zip(ends, counts, strict=True)]

    def _place(self, demand: Demand, ids: tuple[str, ...]) -> Place:
        """Copies of the model on all of its devices, each on as few as hold it."""
        args: list[str] = []
        if self._usable < USABLE and demand.parallel.memory is None:
            args += _memory(self._usable)
        if not demand.parallel.is_given and len(ids) > 1:
            shards = self._least(demand, len(ids)) if demand.weights is not None else len(ids)
            if shards > 1:
                args += ["--tensor-parallel-size", str(shards)]
            if len(ids) // shards > 1:
                args += ["--data-parallel-size", str(len(ids) // shards)]
        return Place(tuple(args), devices=self._visible(ids))

    def _visible(self, ids: tuple[str, ...]) -> tuple[str, ...]:
        """What an engine is told to see; nothing where these are all that there are anyway."""
        is_all = ids == self._devices.ids and not self._devices.busy
        return () if is_all else ids


def _memory(share: float) -> tuple[str, str]:
    """vLLM's argument for a share of the memory of its GPUs."""
    return "--gpu-memory-utilization", f"{share:.2f}"


def _weights(demand: Demand) -> float:
    """GiB on each of its GPUs; 0 where it is unknown."""
    return (demand.weights or 0.0) / demand.parallel.shards


def _load(demand: Demand) -> float:
    return demand.weights or 1.0


def _may_grow(demand: Demand, wish: Wish) -> bool:
    """Whether it can use more GPUs: the user said no number, and what one copy needs is known."""
    given = bool(wish.devices_of(demand))
    return not demand.parallel.is_given and (demand.weights is not None or given)
