"""Parse untrusted JSON: bounded in depth, without duplicate keys."""

from __future__ import annotations

import json
from typing import Any

from refusal_checks.core.text import describe_value, is_name, sanitize

DEPTH = 100
"""How deeply lists and objects may be nested. Python's own limit is near 1,000, and what stays
below it can still be too deep for the next recursive function."""


def parse_json(text: str | bytes, unique: bool = False) -> Any:
    """Parse UTF-8 JSON that is nested to at most ``DEPTH`` levels.

    Lone surrogates, which JSON can escape but no file can hold, are replaced. ``unique`` refuses
    objects with a duplicate key (by default its last value counts). Every error is a ValueError.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig")
    try:
        value = json.loads(text, object_pairs_hook=_unique if unique else None)
        if "\\ud" in text or "\\uD" in text:
            whole = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
            value = json.loads(whole)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    # Few texts have so many brackets, so that the value is seldom walked through.
    if text.count("[") + text.count("{") > DEPTH and _is_too_deep(value):
        raise ValueError(f"it is nested more than {DEPTH} levels deep")
    return value


def _is_too_deep(value: Any) -> bool:
    """True if lists and objects are nested more than ``DEPTH`` levels deep."""
    level = [value]
    for _ in range(DEPTH):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list):
                below += item
        level = below
    return bool(level)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    names = [name for name, _ in pairs]
    twice = next(name for name in names if names.count(name) > 1)
    which = f'the key "{sanitize(twice, 60)}"'
    if not is_name(twice):
        # It may be a text that a run keeps to itself.
        which = f"a key ({describe_value(twice)})"
    raise ValueError(f"{which} is there twice; remove one")
