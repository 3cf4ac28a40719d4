"""JSON from elsewhere, made fit to be used: no lone surrogates, and not nested too deeply."""

from __future__ import annotations

import json
from typing import Any

DEPTH = 100
"""Most levels of lists and objects within each other; Python's own limit is near 1,000, and what
passes it can still be too deep for the next function that descends."""


def parse(text: str | bytes) -> Any:
    """The value of a JSON text.

    Lone surrogates, which JSON can spell and no file can hold, are replaced.

    Raises:
        ValueError: it is not JSON, nested more deeply than ``DEPTH``, or not encoded in UTF-8.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig")
    try:
        value = json.loads(text)
        if "\\ud" in text or "\\uD" in text:
            whole = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
            value = json.loads(whole)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if text.count("[") + text.count("{") > DEPTH and _is_deep(value):
        raise ValueError(f"it is nested more than {DEPTH} levels deep")
    return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEPTH):
        level = [child for one in level for child in _children(one)]
        if not level:
            return False
    return True


def _children(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
