"""The manifest as rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def facts(manifest: Mapping[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """Path and value of every fact in a manifest, by its first key."""
    return {name: list(_flat("", value)) for name, value in manifest.items()}


def _flat(path: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _flat(f"{path} › {name}" if path else str(name), inner)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield path, ", ".join(map(str, value)) or "none"
    else:
        yield path, "none" if value in (None, "", {}) else str(value)
