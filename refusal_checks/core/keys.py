"""Content keys: what a stored answer or verdict is found by."""

from __future__ import annotations

import hashlib
import json
from typing import Any

_JSON = json.JSONEncoder(sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=str)


def content_key(*parts: Any) -> str:
    """A key of 32 hexadecimal digits; equal for equal JSON-like parts, in any process."""
    return hashlib.sha256(_JSON.encode(parts).encode()).hexdigest()[:32]
