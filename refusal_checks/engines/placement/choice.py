"""The choice of a placement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from refusal_checks.core.errors import UserError
from refusal_checks.engines.placement.cores import Cores
from refusal_checks.engines.placement.gpus import Gpus
from refusal_checks.engines.placement.hardware import Hardware
from refusal_checks.engines.placement.values import (
    Assignment,
    Devices,
    EngineNeed,
    Kind,
    Placement,
    PlacementRequest,
)


def choose(devices: Devices, demands: Sequence[EngineNeed], wish: PlacementRequest) -> Placement:
    """Where engines run; depends on its arguments alone.

    An engine that Ray or several machines carry needs nothing here. Left to ``auto``, engines get
    GPUs of their own where there are enough, share them where they fit, and take turns where not.

    Args:
        demands: the engines that are to run, each different.

    Raises:
        UserError: the wish cannot be met.
    """
    hardware: Hardware = Cores(devices) if devices.kind == "cpu" else Gpus(devices)
    here = [demand for demand in demands if not demand.parallel.is_elsewhere]
    if not demands:
        return Placement("none", "no engine to start here")
    kind = _kind(hardware, here, demands, wish)
    turns = [int(kind == "turns" and not demand.answers) for demand in demands]
    places = dict.fromkeys(demands, Assignment())
    for turn in (0, 1):
        own = [d for d, its in zip(demands, turns, strict=True) if its == turn and d in here]
        places |= zip(own, _places(hardware, own, kind, wish), strict=True)
    found = [replace(places[d], turn=turn) for d, turn in zip(demands, turns, strict=True)]
    return Placement(kind, _why(kind, hardware, demands, found, wish), tuple(found))


def _kind(
    hardware: Hardware,
    here: Sequence[EngineNeed],
    demands: Sequence[EngineNeed],
    wish: PlacementRequest,
) -> Kind:
    if len(demands) == 1:
        return "one"
    shared = any(demand.answers and demand.judges for demand in demands)
    if wish.kind == "turns" and shared:
        raise UserError(
            "--placement turns: the candidate's engine is one of the judges' too, so it is needed "
            "in both turns; use --placement together, or split"
        )
    can_take_turns = any(demand.answers for demand in demands) and not shared
    if wish.kind in ("together", "split") or (wish.kind == "turns" and can_take_turns):
        return wish.kind
    if wish.candidate_devices or wish.judge_devices or hardware.fit_apart(here):
        return "split"
    fits = hardware.fit_together(here) or wish.at_once or not can_take_turns
    return "together" if fits else "turns"


def _places(
    hardware: Hardware, demands: Sequence[EngineNeed], kind: Kind, wish: PlacementRequest
) -> Sequence[Assignment]:
    shared = kind == "together" or (kind == "turns" and not hardware.fit_apart(demands))
    if len(demands) > 1 and shared:
        return hardware.together(demands)
    return hardware.apart(demands, wish) if demands else []


def _why(
    kind: Kind,
    hardware: Hardware,
    demands: Sequence[EngineNeed],
    places: Sequence[Assignment],
    wish: PlacementRequest,
) -> str:
    models = ", ".join(
        f"{demand.name} ({demand.size}){_where(place)}"
        for demand, place in zip(demands, places, strict=True)
    )
    if all(demand.parallel.is_elsewhere for demand in demands):
        return f"{models}: Ray, or the machines that vLLM's arguments name, carry them"
    if wish.kind == kind:
        return f"{models}, on {hardware.name}: as --placement says"
    return f"{models}, on {hardware.name}: {_reason(kind, hardware, demands)}"


def _reason(kind: Kind, hardware: Hardware, demands: Sequence[EngineNeed]) -> str:
    if kind == "one":
        return "the only engine"
    if kind == "split":
        return "each has its own"
    if kind == "turns":
        return "too large for both at once, so the candidate answers, then the judge judges"
    if hardware.fit_together(demands):
        return "there is room for all at once"
    return "they may not fit at once, but all are needed at the same time"


def _where(place: Assignment) -> str:
    """An engine's own devices and copies, for people."""
    ids = ",".join(place.devices or map(str, place.cores))
    args = " ".join(place.args)
    return f"{ids and f' on {ids}'}{args and f' with {args}'}"
