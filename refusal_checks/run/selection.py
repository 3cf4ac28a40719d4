"""What ``-k`` selects where ids name candidates, too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import pytest

from refusal_checks.gates.gate import Gate

_WORD = re.compile(r"[\w:+\-.\[\]\\/]+")
"""A word of an expression of ``-k``, as pytest reads it."""

_OPERATORS = {"or", "and", "not"}


def clear(
    config: pytest.Config, gates: Iterable[Gate], candidates: tuple[str, ...]
) -> tuple[str, ...]:
    """The candidates' names, one empty name for none; see ``require_clear``."""
    require_clear(config.getoption("keyword", ""), [gate.id for gate in gates], candidates)
    return candidates or ("",)


def require_clear(expression: str, gates: Sequence[str], candidates: Sequence[str]) -> None:
    """Refuse a word that names some gates and is also part of a candidate's name.

    It would select all gates of that candidate, and its evaluation of every benchmark.

    Args:
        gates: ids of the gates.
        candidates: the candidates' names in the ids of tests, where there are several.

    Raises:
        pytest.UsageError: with what to write instead.
    """
    if len(candidates) < 2:
        return
    words = dict.fromkeys(_WORD.findall(expression.lower()))
    for word in (word for word in words if word not in _OPERATORS):
        named = sum(word in gate.lower() for gate in gates)
        twin = next((name for name in candidates if word in name.lower()), None)
        if 0 < named < len(gates) and twin is not None:
            raise pytest.UsageError(
                f'-k {word}: write -k "[{word}" for the gates whose ids begin with it, or give the '
                f"candidates other names with --candidate-name: it is part of the candidate's name "
                f"{twin}, too, and would select all of its gates"
            )
