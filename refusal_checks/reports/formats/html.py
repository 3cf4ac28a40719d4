"""One self-contained HTML file: the decision, the gates, charts, and every record."""

from pathlib import Path

from refusal_checks.results.run_folder import RunFolder

VARIABLE = "REFUSAL_CHECKS_HTML"
USUAL_FILE = "report.html"
HELP = "write an HTML report of the runs to this file"


def write(run: RunFolder, path: Path) -> None:
    from refusal_checks.reports.page import page  # templates, which no other run needs

    page.write(run, path)
