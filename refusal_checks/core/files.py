"""Files that are written whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path


def _write(path: Path, data: bytes) -> None:
    """Write a file that readers see whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)  # a part of a file is of no use, and the disk may be full
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file; readers see it whole or not at all."""
    _write(path, text.encode("utf-8", "replace"))


def write_json(path: Path, value: object) -> None:
    """Write JSON for people and tools; readers see the file whole or not at all."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False))
