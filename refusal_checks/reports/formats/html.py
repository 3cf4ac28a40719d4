"""One self-contained HTML file: the decision, the gates, charts, and every record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from refusal_checks.results.run_folder import RunFolder

if TYPE_CHECKING:
    from refusal_checks.reports.page.follow import LivePage
    from refusal_checks.results.events import Underway

OPTION = "--html"
VARIABLE = "REFUSAL_CHECKS_HTML"
USUAL_FILE = "report.html"
HELP = "write an HTML report of the runs to this file, from the first answer on"


def follow(
    runs: Sequence[Underway], path: Path, say: Callable[[str], None]
) -> LivePage:
    from refusal_checks.reports.page.follow import LivePage

    return LivePage(runs, path, say)


def write(runs: Sequence[RunFolder], path: Path) -> None:
    from refusal_checks.reports.page import page  # templates, which no other run needs

    page.write_runs(runs, path)
