"""Styles and scripts that pages carry inline, and what a Content-Security-Policy calls them."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from markupsafe import Markup


def source(path: Path) -> Markup:
    """A style or script of this package."""
    return Markup(path.read_text(encoding="utf-8"))  # noqa: S704  # a file of ours


def palette() -> Markup:
    """The colours of all pages, as the beginning of a style."""
    return source(Path(__file__).parent / "palette.css")


def digest(text: str) -> str:
    """An inline style or script, as a policy allows it."""
    found = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(found).decode()}'"
