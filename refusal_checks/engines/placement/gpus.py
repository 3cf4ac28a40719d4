"""Engines on GPUs: how many each one needs, and what part of the memory each one gets."""

from __future__ import annotations

from collections.abc import Sequence

from refusal_checks.core.errors import UserError
from refusal_checks.engines.placement.hardware import pools
from refusal_checks.engines.placement.values import (
    Assignment,
    Devices,
    EngineNeed,
    PlacementRequest,
)

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

    def fit_apart(self, demands: Sequence[EngineNeed]) -> bool:
        """See ``Hardware.fit_apart``."""
        count = len(self._devices.ids)
        return sum(self._least(demand, count) for demand in demands) <= count

    def fit_together(self, demands: Sequence[EngineNeed]) -> bool:
        """See ``Hardware.fit_together``; weights that are not known count nothing."""
        return self._fit(demands, self._cut(demands, len(self._devices.ids)))

    def _fit(self, demands: Sequence[EngineNeed], cut: int) -> bool:
        """Whether models fit that are cut over so many GPUs each."""
        memory = self._devices.memory
        if memory is None:
            return True
        needed = {demand: _weights(demand, cut) + BESIDES for demand in demands}
        return sum(needed.values()) <= self._usable * memory and all(
            needed[demand] <= named * memory
            for demand in demands
            if (named := demand.parallel.memory) is not None
        )

    def _cut(self, demands: Sequence[EngineNeed], count: int) -> int:
        """The fewest GPUs over which models are to be cut so that all fit, ``count`` at most; a
        power of two, as models can be cut."""
        cut = 1
        while not self._fit(demands, cut) and 2 * cut <= count:
            cut *= 2
        return cut

    def apart(self, demands: Sequence[EngineNeed], wish: PlacementRequest) -> list[Assignment]:
        """See ``Hardware.apart``; what is left over goes to where the load is greatest."""
        places: dict[EngineNeed, Assignment] = {}
        for ids, own in pools(self._devices, demands, wish):
            for demand, part in zip(own, self._divide(ids, own, wish), strict=True):
                places[demand] = self._place(demand, part)
        return [places[demand] for demand in demands]

    def together(self, demands: Sequence[EngineNeed]) -> list[Assignment]:
        """See ``Hardware.together``; each model is on all of the devices, cut or in copies."""
        ids = self._devices.ids
        cut = self._cut(demands, len(ids))
        shares = self._shares(demands, cut)
        places: list[Assignment] = []
        for demand in demands:
            args: tuple[str, ...] = _memory(shares[demand]) if demand in shares else ()
            if not demand.parallel.is_given and None not in (demand.weights, self._devices.memory):
                args += _spread(cut, len(ids))
            places.append(Assignment(args, devices=self._visible(ids)))
        return places

    def _shares(self, demands: Sequence[EngineNeed], cut: int) -> dict[EngineNeed, float]:
        """Parts of the memory, where the user names none: an engine's weights, and an equal part
        of what is left."""
        named = [demand.parallel.memory for demand in demands]
        usable = max(self._usable - sum(filter(None, named)), SPARE)
        sharing = [demand for demand in demands if demand.parallel.memory is None]
        memory = self._devices.memory
        if memory is None:
            return {demand: usable / len(sharing) for demand in sharing}
        weights = {demand: _weights(demand, cut) for demand in sharing}
        total = sum(weights.values())
        left = usable * memory - total
        if left <= 0:
            return {demand: usable * own / total for demand, own in weights.items()}
        return {demand: (own + left / len(sharing)) / memory for demand, own in weights.items()}

    def _least(self, demand: EngineNeed, count: int) -> int:
        """The fewest GPUs that hold it, ``count`` at most; or those that the user says."""
        if demand.parallel.is_given:
            return demand.parallel.ranks
        return 1 if demand.weights is None else self._cut([demand], count)

    def _divide(
        self, ids: Sequence[str], demands: Sequence[EngineNeed], wish: PlacementRequest
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

    def _place(self, demand: EngineNeed, ids: tuple[str, ...]) -> Assignment:
        """Copies of the model on all of its devices, each on as few as hold it."""
        args: tuple[str, ...] = ()
        if self._usable < USABLE and demand.parallel.memory is None:
            args += _memory(self._usable)
        if not demand.parallel.is_given:
            shards = self._least(demand, len(ids)) if demand.weights is not None else len(ids)
            args += _spread(shards, len(ids))
        return Assignment(args, devices=self._visible(ids))

    def _visible(self, ids: tuple[str, ...]) -> tuple[str, ...]:
        """What an engine is told to see; nothing where these are all that there are anyway."""
        is_all = ids == self._devices.ids and not self._devices.busy
        return () if is_all else ids


def _memory(share: float) -> tuple[str, ...]:
    """vLLM's argument for a share of the memory of its GPUs."""
    return "--gpu-memory-utilization", f"{share:.2f}"


def _spread(shards: int, count: int) -> tuple[str, ...]:
    """vLLM's arguments for a model on so many GPUs, each copy cut over some of them."""
    args: tuple[str, ...] = ()
    if shards > 1:
        args += ("--tensor-parallel-size", str(shards))
    if shards and count // shards > 1:
        args += ("--data-parallel-size", str(count // shards))
    return args


def _weights(demand: EngineNeed, cut: int) -> float:
    """GiB on each of its GPUs, where it is cut over so many unless the user says; 0 if unknown."""
    parallel = demand.parallel
    return (demand.weights or 0.0) / (parallel.shards if parallel.is_given else cut)


def _load(demand: EngineNeed) -> float:
    return demand.weights or 1.0


def _may_grow(demand: EngineNeed, wish: PlacementRequest) -> bool:
    """Whether it can use more GPUs: the user said no number, and what one copy needs is known."""
    given = bool(wish.devices_of(demand))
    return not demand.parallel.is_given and (demand.weights is not None or given)
