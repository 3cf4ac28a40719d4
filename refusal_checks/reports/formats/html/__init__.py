"""One self-contained HTML file: the answer, the board, charts, and every record to look at."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from refusal_checks.results.run_folder import RunFolder

OPTION = "--html"
VARIABLE = "REFUSAL_CHECKS_HTML"
HELP = "write an HTML report of the runs into this file"


def write(runs: Sequence[RunFolder], path: Path) -> None:
    """Write the report; readers see it whole or not at all. See ``Format.write``."""
    from refusal_checks.reports.formats.html.page import page  # templates, which no other run needs

    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with draft.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.writelines(page(runs))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
