"""JUnit XML of a finished run, as ``RunResult.write_junit`` writes it."""

from pathlib import Path

from refusal_checks.results.run_folder import RunFolder

VARIABLE = ""
USUAL_FILE = "report.xml"
HELP = "write JUnit XML, a case for each gate, to this file"


def write(run: RunFolder, path: Path) -> None:
    from refusal_checks.reports import junit  # junit-xml, which no other run needs

    junit.write(run, path)
