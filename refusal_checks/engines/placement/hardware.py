"""What every kind of device can be asked for a placement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from refusal_checks.core.errors import UserError
from refusal_checks.engines.placement.values import (
    Assignment,
    Devices,
    EngineNeed,
    PlacementRequest,
)


class Hardware(Protocol):
    """Devices of one kind."""

    @property
    def name(self) -> str:
        """The devices, for people."""

    def fit_apart(self, demands: Sequence[EngineNeed]) -> bool:
        """Whether each engine can have devices of its own."""

    def fit_together(self, demands: Sequence[EngineNeed]) -> bool:
        """Whether the engines can share the devices; true where nothing is known against it."""

    def apart(self, demands: Sequence[EngineNeed], wish: PlacementRequest) -> list[Assignment]:
        """Each engine on devices of its own; a single one on all of them.

        Raises:
            UserError: there are too few devices.
        """

    def together(self, demands: Sequence[EngineNeed]) -> list[Assignment]:
        """All engines on the same devices."""


def pools(
    devices: Devices, demands: Sequence[EngineNeed], wish: PlacementRequest
) -> list[tuple[tuple[str, ...], list[EngineNeed]]]:
    """The devices that the user gave, with the engines for them; then the rest for the others.

    Raises:
        UserError: a device that is not there, or that is given twice.
    """
    _require_sensible(devices, wish)
    given = (wish.candidate_devices, wish.judge_devices)
    taken = {id for ids in given for id in ids}
    rest = tuple(id for id in devices.ids if id not in taken)
    found = [
        (ids, [demand for demand in demands if wish.devices_of(demand) == ids])
        for ids in (*filter(None, given), ())
    ]
    return [(ids or rest, own) for ids, own in found if own]


def _require_sensible(devices: Devices, wish: PlacementRequest) -> None:
    for option in ("candidate", "judge"):
        for id in getattr(wish, f"{option}_devices"):
            if devices.kind != "unknown" and id not in (*devices.ids, *devices.busy):
                known = ",".join(devices.ids)
                raise UserError(f"--{option}-devices: there is no device {id} here; known: {known}")
    both = set(wish.candidate_devices) & set(wish.judge_devices)
    if both:
        raise UserError(
            f"--candidate-devices and --judge-devices both name {', '.join(sorted(both))}: give "
            "each engine its own, or leave both out"
        )
