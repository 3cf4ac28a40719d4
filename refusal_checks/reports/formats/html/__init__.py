"""One self-contained HTML file: the answer, the gates, charts, and every record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from refusal_checks.core.files import write_text
from refusal_checks.results.run_folder import RunFolder

OPTION = "--html"
VARIABLE = "REFUSAL_CHECKS_HTML"
HELP = "write an HTML report of the runs to this file"


def write(runs: Sequence[RunFolder], path: Path) -> None:
    """Write the report. See ``formats.Format.write``."""
    from refusal_checks.reports.formats.html.page import page  # templates, which no other run needs

    write_text(path, "".join(page(runs)))
