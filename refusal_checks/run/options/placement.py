"""The options on which engine is started, and where."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import pytest

from refusal_checks.core.errors import UserError
from refusal_checks.engines import kinds
from refusal_checks.engines.placement import PlacementRequest, Wanted
from refusal_checks.models.spec import CandidateModel, JudgeModel, Served
from refusal_checks.run.options.call import Call

if TYPE_CHECKING:
    from refusal_checks.run.options.models import Given


def add(group: pytest.OptionGroup) -> None:
    """Declare the options."""
    add = group.addoption
    add(
        "--engine",
        metavar="NAME",
        default=kinds.AUTO,
        help=f"what serves models that are started here: {', '.join(kinds.names())}, or auto: "
        f"{kinds.PREFERRED} if it is installed, else another one that is",
    )
    add(
        "--engine-command",
        metavar="COMMAND",
        default="",
        help="program that takes the engine's arguments in place of its own: a fork, another "
        "interpreter, a container; one quoted string",
    )
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


class EngineChoice(NamedTuple):
    """The engine's name, and the program that replaces its own; empty for that."""

    name: str
    program: tuple[str, ...]


def read_engine(config: Given) -> EngineChoice:
    """Read ``--engine`` and ``--engine-command``; see ``choose_engine``."""
    return choose_engine(config.getoption("engine"), config.getoption("engine_command"))


def choose_engine(name: str | None, command: str | None) -> EngineChoice:
    """The engine that the options name; None if one was not given.

    Raises:
        UserError: no such engine, or a command with an unbalanced quote.
    """
    try:
        program = tuple(shlex.split(command or ""))
    except ValueError as fault:
        raise UserError(f"--engine-command {command}: {fault}") from None
    # A program of the user's own stands for vLLM, which need not be installed here then.
    usual = kinds.PREFERRED if program else kinds.AUTO
    return EngineChoice(kinds.choose(usual if name in (None, kinds.AUTO) else name), program)


def require_engine(config: Given, models: Sequence[CandidateModel | JudgeModel]) -> None:
    """Refuse the choice of an engine if no model needs one.

    Raises:
        UserError: names the option to leave out.
    """
    if any(isinstance(model, Served) for model in models):
        return
    for option, unset in (("--engine", kinds.AUTO), ("--engine-command", "")):
        value = config.getoption(option.lstrip("-").replace("-", "_"))
        if value != unset:
            raise UserError(f"{option} {value}: leave it out: no model of this run is started here")


def read(config: Call) -> PlacementRequest:
    """Read the options on devices.

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
