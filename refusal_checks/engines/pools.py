"""Divide devices and engines into pools."""

from collections.abc import Sequence

from refusal_checks.core.errors import UserError
from refusal_checks.engines.devices import Devices
from refusal_checks.engines.engine import Assignment
from refusal_checks.engines.placement import EngineNeed, PlacementRequest

Places = dict[EngineNeed, Assignment]


def pools(
    devices: Devices, needs: Sequence[EngineNeed], request: PlacementRequest
) -> dict[tuple[str, ...], list[EngineNeed]]:
    """Pair the devices that the user assigned with their engines, and the rest with the others.

    Devices assigned to engines of another turn are free in this one.
    """
    _require_devices(devices, "candidate", request.candidate_devices)
    _require_devices(devices, "judge", request.judge_devices)
    both = set(request.candidate_devices) & set(request.judge_devices)
    if both:
        raise UserError(
            f"candidate.devices and judge.devices both name {', '.join(sorted(both))}: give "
            "each engine its own, or leave both out"
        )
    taken = {device for need in needs for device in request.devices_of(need)}
    rest = tuple(device for device in devices.ids if device not in taken)
    engines: dict[tuple[str, ...], list[EngineNeed]] = {}
    for need in needs:
        engines.setdefault(request.devices_of(need) or rest, []).append(need)
    return engines


def _require_devices(devices: Devices, role: str, ids: Sequence[str]) -> None:
    if devices.kind == "unknown":
        return
    for device in ids:
        if device not in (*devices.ids, *devices.busy):
            raise UserError(
                f"{role}.devices: no device {device} here; known: {','.join(devices.ids)}"
            )
