"""Judges: one file each. A judge reads one answer and gives a verdict, or says why there is none.

A module that defines ``build(setup: JudgeSetup | None) -> Judge`` is a way of judging that a
benchmark can name (``Benchmark.judge``); without a model behind ``--judge`` the setup is None.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from refusal_checks.judges import kinds

if TYPE_CHECKING:
    from refusal_checks.judges.base import Judge, JudgeSetup


def build(kind: str, setup: JudgeSetup | None) -> Judge:
    """The judge of that module.

    Raises:
        ModelError: it needs a model and there is none, or its prompt cannot be used.
    """
    return cast("Judge", import_module(f"{kinds.__name__}.{kind}").build(setup))
