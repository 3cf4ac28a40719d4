"""The page of several runs side by side."""

from __future__ import annotations

from pathlib import Path

from refusal_checks.core.files import write_text
from refusal_checks.reports.comparing import SideBySide
from refusal_checks.reports.formats.html.documents import document


def write(found: SideBySide, path: Path) -> None:
    """Write the page.

    Raises:
        OSError: the file cannot be written.
    """
    write_text(path, "".join(document("compare.html.j2", ["theme.js"], found=found)))
