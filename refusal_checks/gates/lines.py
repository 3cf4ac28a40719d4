"""Find the lines of run files that define gates, for annotations in CI."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from refusal_checks.gates.gate import Gate


def line_of(gate: Gate) -> int | None:
    """The line, from 1, of the run file that defines a gate; None for a default gate.

    A gate that is not written as ``metric = ...`` gets the line of its benchmark's table.
    """
    if not gate.source:
        return None
    group = tuple(name for name in (gate.group_kind, gate.group) if name)
    lines = _lines(Path(gate.source))
    own = (gate.benchmark, *group, gate.metric)
    return lines.get(own) or lines.get((gate.benchmark,))


@lru_cache(maxsize=16)
def _lines(path: Path) -> Mapping[tuple[str, ...], int]:
    """The lines of a file's tables and keys, by full name; empty for a missing file."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return {}
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    # Not splitlines(), which also splits where TOML does not end a line.
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if line.lstrip().startswith("["):
            table = _parts(line) or table
            lines.setdefault(table, number)
        elif "=" in line:
            key = _parts(f"{line.partition('=')[0]} = 0")
            if key:
                lines.setdefault(table + key, number)
    return lines


def _parts(line: str) -> tuple[str, ...]:
    """The parts of the name in a table's header or key; empty for any other line."""
    try:
        inner: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ()
    parts: list[str] = []
    while isinstance(inner, dict) and inner:
        name, inner = next(iter(inner.items()))
        parts.append(name)
    return tuple(parts)
