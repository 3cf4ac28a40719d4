"""The choice of a placement: split if there are GPUs enough, together if all fit, else turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from refusal_checks.core.errors import UserError
from refusal_checks.engines.placement.cores import Cores
from refusal_checks.engines.placement.gpus import Gpus
from refusal_checks.engines.placement.values import (
    Assignment,
    Devices,
    EngineNeed,
    Kind,
    Placement,
    PlacementRequest,
)


def choose(devices: Devices, needs: Sequence[EngineNeed], request: PlacementRequest) -> Placement:
    """Choose where engines run; depends on its arguments alone.

    An engine that a cluster or several machines carry is not placed here.

    Args:
        needs: the engines that are to run, each different.

    Raises:
        UserError: the request cannot be met.
    """
    if not needs:
        return Placement("none", "no engine to start here")
    hardware = Cores(devices) if devices.kind == "cpu" else Gpus(devices)
    here = [need for need in needs if not need.parallel.is_elsewhere]
    kind = _kind(hardware, here, needs, request)
    places = dict.fromkeys(needs, Assignment())
    for turn in (0, 1):
        group = [need for need in needs if turn == int(kind == "turns" and not need.answers)]
        placed = [need for need in group if need in here]
        shared = kind == "together" or (kind == "turns" and not hardware.fit_apart(placed))
        if len(placed) > 1 and shared:
            found = hardware.together(placed)
        else:
            found = hardware.apart(placed, request)
        places |= zip(placed, found, strict=True)
        places |= {need: replace(places[need], turn=turn) for need in group}
    shown = [f"{need.name} ({need.size}){places[need].shown(len(devices.ids))}" for need in needs]
    models = ", ".join(shown)
    if not here:
        why = "Ray, or the machines that their arguments name, carry them"
    elif request.kind == kind:
        why = f"on {hardware.name}: as --placement says"
    else:
        why = f"on {hardware.name}: {_reason(kind, hardware, needs)}"
    return Placement(kind, f"{models}, {why}", tuple(places[need] for need in needs))


def _kind(
    hardware: Cores | Gpus,
    here: Sequence[EngineNeed],
    needs: Sequence[EngineNeed],
    request: PlacementRequest,
) -> Kind:
    if len(needs) == 1:
        return "one"
    shared = any(need.answers and need.judges for need in needs)
    if request.kind == "turns" and shared:
        raise UserError(
            "--placement turns: the candidate's engine also serves a judge, so both turns need it; "
            "use --placement together, or split"
        )
    can_take_turns = any(need.answers for need in needs) and not shared
    if request.kind in ("together", "split") or (request.kind == "turns" and can_take_turns):
        return request.kind
    if request.candidate_devices or request.judge_devices or hardware.fit_apart(here):
        return "split"
    fits = hardware.fit_together(here) or request.at_once or not can_take_turns
    return "together" if fits else "turns"


def _reason(kind: Kind, hardware: Cores | Gpus, needs: Sequence[EngineNeed]) -> str:
    if kind == "one":
        return "the only engine"
    if kind == "split":
        return "each has its own"
    if kind == "turns":
        return "too large for both at once, so the candidate answers, then the judge judges"
    if hardware.fit_together(needs):
        return "there is room for all at once"
    return "they may not fit at once, but all are needed at the same time"
