"""The engines that can be started: one file each, found by its name."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from refusal_checks.core.errors import require_known
from refusal_checks.engines.base import Engine

PREFERRED = "vllm"
AUTO = "auto"


def names() -> tuple[str, ...]:
    """The values of ``--engine`` besides ``auto``: the preferred engine, then the others."""
    found = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(sorted(found, key=lambda name: name != PREFERRED))


@cache
def get(name: str) -> Engine:
    """The engine of this name."""
    engine: Engine = importlib.import_module(f"{__name__}.{name}").ENGINE
    return engine


def choose(name: str) -> str:
    """What ``--engine`` names; ``auto`` means the first installed one, or vLLM if none is.

    Raises:
        UserError: there is no such engine; names the nearest.
    """
    if name == AUTO:
        return next((known for known in names() if get(known).is_installed()), PREFERRED)
    require_known(name, names(), "--engine", "engine")
    return name
