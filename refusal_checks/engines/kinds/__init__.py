"""The engines that can be started: one file or extension each, found by its name."""

from __future__ import annotations

import importlib
import pkgutil
import shutil
from collections.abc import Sequence

from refusal_checks.core import extensions
from refusal_checks.core.errors import ModelError, require_known
from refusal_checks.core.extensions import Extension
from refusal_checks.engines.base import Engine, EngineSpec

PREFERRED = "vllm"
AUTO = "auto"


def names() -> tuple[str, ...]:
    """The values of ``--engine`` besides ``auto``: the preferred engine, then the others."""
    unique = extensions.Names("engines")
    own = [(module.name, extensions.OWN) for module in pkgutil.iter_modules(__path__)]
    for name, origin in (*own, *((one.name, one.origin) for one in _added().values())):
        unique.add(name, origin)
    found = sorted([*dict(own), *_added()])
    return tuple(sorted(found, key=lambda name: name != PREFERRED))


def get(name: str) -> Engine:
    """The engine of this name."""
    added = _added().get(name)
    module = added.module if added else importlib.import_module(f"{__name__}.{name}")
    engine: Engine = module.ENGINE
    return engine


def _added() -> dict[str, Extension]:
    """Extensions with an engine, by its name."""
    return {one.name: one for one in extensions.known() if one.has("ENGINE")}


def choose(name: str) -> str:
    """What ``--engine`` names; ``auto`` means the first installed one, or vLLM if none is."""
    if name == AUTO:
        return next((known for known in names() if get(known).is_installed()), PREFERRED)
    require_known(name, names(), "--engine", "engine")
    return name


def require_usable(spec: EngineSpec) -> None:
    """Raise ModelError, with the remedy, if an engine cannot be started or lacks an argument."""
    engine = get(spec.engine)
    require_program(engine, spec.program)
    if not spec.program:
        engine.check(spec.args)


def require_program(engine: Engine, program: Sequence[str]) -> None:
    """Raise ModelError, with the remedy, if an engine or the program in its place is missing."""
    if program and shutil.which(program[0]) is None:
        raise ModelError(
            f"--engine-command: no program {program[0]} here; name one on the PATH, or its whole "
            "path"
        )
    if not program and not engine.is_installed():
        others = [name for name in names() if get(name).is_installed()]
        use = f"use --engine {others[0]}" if others else f"install it: {engine.remedy}"
        raise ModelError(
            f"{engine.title} is not installed here: {use}, or name a running server "
            "(http://HOST:PORT/v1#MODEL)"
        )
