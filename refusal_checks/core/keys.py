"""Content keys, under which answers and verdicts are stored."""

from __future__ import annotations

import hashlib
import json
from typing import Any

_JSON = json.JSONEncoder(sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=str)


def content_key(*parts: Any) -> str:
    """32 hexadecimal digits, equal for equal JSON-like parts in any process."""
    return hashlib.sha256(_JSON.encode(parts).encode()).hexdigest()[:32]
