"""Whether an engine can be started here; asked before anything is."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from refusal_checks.core.errors import ModelError
from refusal_checks.engines import kinds
from refusal_checks.engines.base import Engine, EngineSpec


def require_usable(spec: EngineSpec) -> None:
    """Raise ModelError, with the remedy, if an engine cannot be started or lacks an argument."""
    engine = kinds.get(spec.engine)
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
        others = [name for name in kinds.names() if kinds.get(name).is_installed()]
        use = f"use --engine {others[0]}" if others else f"install it: {engine.remedy}"
        raise ModelError(
            f"{engine.title} is not installed here: {use}, or name a running server "
            "(http://HOST:PORT/v1#MODEL)"
        )
