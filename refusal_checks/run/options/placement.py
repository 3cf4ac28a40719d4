"""The options on where engines run."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from refusal_checks.core.errors import UserError
from refusal_checks.engines.placement.values import PlacementRequest, Wanted


def add(group: pytest.OptionGroup) -> None:
    """Declare the options."""
    add = group.addoption
    add(
        "--placement",
        choices=get_args(Wanted),
        default="auto",
        help="candidate's and judge's engines on the same devices (together), one after the other "
        "(turns), on devices of their own (split), or whatever fits this machine (auto)",
    )
    for role in ("candidate", "judge"):
        add(
            f"--{role}-devices",
            metavar="N,...",
            default="",
            help=f"GPUs, or cores of a CPU, for the {role}'s engine; the other one gets the rest",
        )


def read(config: pytest.Config) -> PlacementRequest:
    """What the options say.

    Raises:
        UserError: they contradict each other.
    """
    kind, at_once = config.getoption("placement"), config.getoption("stop_early")
    named = {role: _ids(config.getoption(f"{role}_devices")) for role in ("candidate", "judge")}
    if kind == "turns" and at_once:
        raise UserError(
            "--placement turns: all answers are there before the first is judged, so --stop-early "
            "would save none; leave one of the two out"
        )
    for role, ids in named.items():
        if ids and kind in ("together", "turns"):
            raise UserError(
                f"--{role}-devices divides the devices, and --placement {kind} does not; use "
                "--placement split"
            )
    return PlacementRequest(kind, named["candidate"], named["judge"], at_once)


def _ids(text: Any) -> tuple[str, ...]:
    return tuple(part.strip() for part in str(text).split(",") if part.strip())
