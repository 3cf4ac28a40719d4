"""The engines that can be started: one file or extension each, found by name."""

import shutil
from collections.abc import Sequence

from refusal_checks.core import extensions
from refusal_checks.core.errors import ModelError, require_known
from refusal_checks.engines.engine import Engine

PREFERRED = "vllm"
AUTO = "auto"


def discover() -> dict[str, Engine]:
    """Every engine by name, the preferred one first."""
    unique = extensions.Names("engines")
    engines: dict[str, Engine] = {}
    for extension in extensions.providers(__name__, __path__, "ENGINE"):
        unique.add(extension.name, extension.origin)
        engines[extension.name] = extension.module.ENGINE
    others = sorted(engines.keys() - {PREFERRED})
    return {name: engines[name] for name in (PREFERRED, *others)}


def get(name: str) -> Engine:
    return discover()[name]


def choose(name: str) -> str:
    """Choose an engine by name; ``auto`` means the first installed one, or vLLM if none is."""
    if name == AUTO:
        for engine_name, engine in discover().items():
            if engine.is_installed():
                return engine_name
        return PREFERRED
    require_known(name, discover(), "--engine", "engine")
    return name


def require_program(engine: Engine, program: Sequence[str]) -> None:
    """Raise ModelError, with the remedy, if an engine or its replacement program is missing."""
    if program and shutil.which(program[0]) is None:
        raise ModelError(
            f"engine.command: no program {program[0]} here; name one on the PATH, or its whole path"
        )
    if not program and not engine.is_installed():
        others = [name for name, other in discover().items() if other.is_installed()]
        use = f"install it: {engine.remedy}"
        if others:
            use = f"use --engine {others[0]}"
        raise ModelError(
            f"{engine.title} is not installed here: {use}, or name a running server "
            "(http://HOST:PORT/v1#MODEL)"
        )
