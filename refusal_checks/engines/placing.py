"""Choose where engines run: which devices each one gets, and whether all run at the same time.

Each engine gets its own GPUs if there are enough (split); else all share the devices if they fit
(together); else the candidate's engine runs first and the judge's after it (turns). The user's
settings and engine arguments win.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from refusal_checks.core.errors import UserError
from refusal_checks.engines.cpu_placing import Cores
from refusal_checks.engines.devices import Devices
from refusal_checks.engines.engine import Assignment
from refusal_checks.engines.gpu_placing import Gpus
from refusal_checks.engines.placement import (
    EngineNeed,
    Kind,
    Placement,
    PlacementRequest,
)


def choose(
    devices: Devices, needs: Sequence[EngineNeed], request: PlacementRequest
) -> Placement:
    """Choose where engines run; a pure function of its arguments.

    Engines on a cluster or on several machines are not placed.

    Raises:
        UserError: the user asks for what these devices do not allow.
    """
    if not needs:
        return Placement("none", "no engine to start here")
    hardware = Cores(devices) if devices.kind == "cpu" else Gpus(devices)
    here = [need for need in needs if not need.parallel.is_elsewhere]
    kind, why = _kind(hardware, here, needs, request)
    if request.kind == kind:
        why = "as engine.placement says"

    places = dict.fromkeys(needs, Assignment())
    for turn, group in enumerate(_turns(kind, needs)):
        placed = [need for need in group if need in here]
        if len(placed) > 1 and _shares(hardware, kind, placed):
            places |= hardware.together(placed, request)
        else:
            places |= hardware.apart(placed, request)
        for need in group:
            places[need] = replace(places[need], turn=turn)

    models = [need.shown + places[need].shown(len(devices.ids)) for need in needs]
    reason = f"on {hardware.name}: {why}"
    if not here:
        reason = "Ray, or the machines that their arguments name, carry them"
    ordered = tuple(places[need] for need in needs)
    return Placement(kind, ", ".join([*models, reason]), ordered)


def _turns(kind: Kind, needs: Sequence[EngineNeed]) -> list[list[EngineNeed]]:
    """The engines that run at the same time, group by group."""
    if kind != "turns":
        return [list(needs)]
    candidates = [need for need in needs if need.answers]
    judges = [need for need in needs if not need.answers]
    return [candidates, judges]


def _shares(hardware: Cores | Gpus, kind: Kind, group: Sequence[EngineNeed]) -> bool:
    """True if engines that run at the same time share devices."""
    if kind == "turns":
        return not hardware.fit_apart(group)
    return kind == "together"


def _kind(
    hardware: Cores | Gpus,
    here: Sequence[EngineNeed],
    needs: Sequence[EngineNeed],
    request: PlacementRequest,
) -> tuple[Kind, str]:
    """The kind of placement, and why it is this one."""
    if len(needs) == 1:
        return "one", "the only engine"

    is_shared = any(need.answers and need.judges for need in needs)
    if request.kind == "turns" and is_shared:
        raise UserError(
            "engine.placement=turns: the candidate's engine also serves a judge, so both turns "
            "need it; use --set engine.placement=together, or split"
        )
    can_take_turns = any(need.answers for need in needs) and not is_shared
    if request.kind in ("together", "split"):
        return request.kind, ""
    if request.kind == "turns" and can_take_turns:
        return "turns", ""

    has_devices = request.candidate_devices or request.judge_devices
    if has_devices or hardware.fit_apart(here):
        return "split", "each has its own"
    if hardware.fit_together(here):
        return "together", "there is room for all at once"
    if not can_take_turns:
        why = "they may not fit at once, but all are needed at the same time"
        return "together", why
    why = "too large for both at once, so the candidate answers, then the judge judges"
    return "turns", why
