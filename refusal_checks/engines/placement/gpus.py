"""Engines on GPUs: how many each one needs, and what part of the memory each one gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from refusal_checks.core.errors import UserError
from refusal_checks.engines.placement.devices import pools
from refusal_checks.engines.placement.values import (
    Assignment,
    Devices,
    EngineNeed,
    PlacementRequest,
)

USABLE = 0.9
"""Share of a GPU's memory that engines may plan with if others use none of it."""

SPARE = 0.05
"""Share that stays free beside what others use: vLLM does not start if less is free than its
share, and CUDA itself takes a part of that."""

OVERHEAD = 4.0
"""GiB that an engine needs on each GPU besides weights: CUDA itself, activations, a small cache."""


class Gpus:
    """GPUs, or devices of which nothing is known."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._count = len(devices.ids)
        self._usable = max(SPARE, min(USABLE, 1 - devices.used - SPARE))

    @property
    def name(self) -> str:
        """The devices, for people."""
        if not self._count:
            return "devices that only the engine knows"
        size = f" of {self._devices.memory:.0f} GiB" if self._devices.memory else ""
        return f"GPU {', '.join(self._devices.ids)}{size}{self._busy}"

    @property
    def _busy(self) -> str:
        busy = ",".join(self._devices.busy)
        return f" (others use GPU {busy}; name it in CUDA_VISIBLE_DEVICES to use it)" * bool(busy)

    def fit_apart(self, needs: Sequence[EngineNeed]) -> bool:
        """True if each engine can have GPUs of its own."""
        return sum(self._least(need, self._count) for need in needs) <= self._count

    def fit_together(self, needs: Sequence[EngineNeed]) -> bool:
        """True if the engines can share the GPUs; unknown weights count nothing."""
        return self._fit(needs, self._cut(needs, self._count))

    def _fit(self, needs: Sequence[EngineNeed], cut: int) -> bool:
        """True if models fit that are cut over this number of GPUs each."""
        memory = self._devices.memory
        if memory is None:
            return True
        sizes = [(_weights(need, cut) + OVERHEAD, need.parallel.memory) for need in needs]
        is_room = sum(size for size, _ in sizes) <= self._usable * memory
        return is_room and all(size <= (share or 1) * memory for size, share in sizes)

    def _cut(self, needs: Sequence[EngineNeed], count: int) -> int:
        """The fewest GPUs to cut models over so that all fit: a power of two, at most ``count``."""
        cut = 1
        while not self._fit(needs, cut) and 2 * cut <= count:
            cut *= 2
        return cut

    def _least(self, need: EngineNeed, count: int) -> int:
        """The fewest GPUs that hold an engine, at most ``count``; or those that the user says."""
        if need.parallel.is_given:
            return need.parallel.ranks
        return 1 if need.weights is None else self._cut([need], count)

    def together(self, needs: Sequence[EngineNeed]) -> list[Assignment]:
        """Put each model on all of the GPUs, cut or in copies."""
        cut = self._cut(needs, self._count)
        shares = self._shares(needs, cut)
        return [
            self._place(
                need,
                self._devices.ids,
                0 if None in (need.weights, self._devices.memory) else cut,
                shares.get(need),
            )
            for need in needs
        ]

    def _shares(self, needs: Sequence[EngineNeed], cut: int) -> dict[EngineNeed, float]:
        """Shares of the memory unless the user names one: the weights and an equal part of what
        is left.
        """  # noqa: D205
        named = [need.parallel.memory for need in needs]
        usable = max(self._usable - sum(filter(None, named)), SPARE)
        sharing = [need for need in needs if need.parallel.memory is None]
        memory = self._devices.memory
        if memory is None:
            return dict.fromkeys(sharing, usable / max(1, len(sharing)))
        weights = {need: _weights(need, cut) for need in sharing}
        total = sum(weights.values())
        left = usable * memory - total
        if left <= 0:
            return {need: usable * size / total for need, size in weights.items()}
        return {need: (size + left / len(sharing)) / memory for need, size in weights.items()}

    def apart(self, needs: Sequence[EngineNeed], request: PlacementRequest) -> list[Assignment]:
        """Give each engine GPUs of its own, a single one all; spare ones go to the largest load.

        Raises:
            UserError: there are too few.
        """
        share = self._usable if self._usable < USABLE else None
        places: dict[EngineNeed, Assignment] = {}
        for ids, group in pools(self._devices, needs, request):
            start = 0
            for need, count in zip(group, self._counts(ids, group, request), strict=True):
                cut = count if need.weights is None else self._least(need, count)
                own = None if need.parallel.memory else share
                places[need] = self._place(need, ids[start : start + count], cut, own)
                start += count
        return [places[need] for need in needs]

    def _counts(
        self, ids: Sequence[str], needs: Sequence[EngineNeed], request: PlacementRequest
    ) -> list[int]:
        """How many of these GPUs each engine gets."""
        if not ids and len(needs) == 1:
            return [0]
        least = [self._least(need, len(ids)) for need in needs]
        if sum(least) > len(ids):
            raise UserError(
                f"{', '.join(need.name for need in needs)}: {sum(least)} GPUs needed and "
                f"{len(ids)} there ({', '.join(ids) or 'none'}): give more with "
                "--candidate-devices or --judge-devices, or use --placement turns, or together"
                + self._busy
            )
        counts = list(least)
        while growing := [
            number
            for number, need in enumerate(needs)
            if _may_grow(need, request) and least[number] <= len(ids) - sum(counts)
        ]:
            most = max(growing, key=lambda number: (needs[number].weights or 1.0) / counts[number])
            counts[most] += least[most]
        return counts

    def _place(
        self, need: EngineNeed, ids: tuple[str, ...], cut: int, share: float | None
    ) -> Assignment:
        """Copies of a model on these GPUs, each cut over some of them; one copy if ``cut`` is 0."""
        is_all = ids == self._devices.ids and not self._devices.busy
        place = Assignment(() if is_all else ids, memory=share and round(share, 2))
        if need.parallel.is_given or not cut:
            return place
        return replace(place, shards=cut, copies=max(1, len(ids) // cut))


def _weights(need: EngineNeed, cut: int) -> float:
    """GiB on each GPU of a model that is cut over this many unless the user says; 0 if unknown."""
    parallel = need.parallel
    return (need.weights or 0.0) / (parallel.shards if parallel.is_given else cut)


def _may_grow(need: EngineNeed, request: PlacementRequest) -> bool:
    """True if it can use more GPUs: the user gave no number, and what one copy needs is known."""
    is_known = need.weights is not None or bool(request.devices_of(need))
    return not need.parallel.is_given and is_known
