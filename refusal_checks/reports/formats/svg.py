"""The charts of runs as one SVG file, for slides and papers: radars and histograms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from refusal_checks.core.errors import DataError
from refusal_checks.results.run_folder import RunFolder, RunView

if TYPE_CHECKING:
    from refusal_checks.reports.page.charts import Columns, Radar

OPTION = ""
VARIABLE = ""
USUAL_FILE = "charts.svg"
HELP = "write the charts of the runs as one SVG file"


def write(runs: Sequence[RunFolder], path: Path) -> None:
    """Draw what the page draws: radars with a line for each run, then each run's histograms.

    Equal figures make equal files.

    Raises:
        OSError: the file cannot be written.
        DataError: a run's folder is damaged, or there is nothing to draw.
    """
    # Templates and numpy, which no other format needs.
    from refusal_checks.core.files import write_text
    from refusal_checks.reports.page import charts, render
    from refusal_checks.reports.rows import candidate_names

    views = [RunView(folder, folder.summary()) for folder in runs]
    summaries = [view.summary for view in views]
    drawn: list[Columns | Radar] = [*charts.radars(summaries)]
    for view, name in zip(views, candidate_names(summaries), strict=True):
        for histogram in _histograms(view):
            heading = f"{name}: {histogram.name}" if name else histogram.name
            drawn.append(histogram._replace(name=heading))
    if not drawn:
        raise DataError(f"{path}: not written: these runs completed no benchmark")
    title = ", ".join(filter(None, candidate_names(summaries))) or views[0].candidate
    write_text(path, render.drawing(title=title, charts=drawn))


def _histograms(run: RunView) -> Iterator[Columns]:
    from refusal_checks.reports.page import charts
    from refusal_checks.results import histograms

    for histogram in histograms.read(run.folder.path):
        yield charts.confidences(histogram)
    for name, benchmark in run.summary.benchmarks.items():
        yield from charts.safety_scores(name, benchmark)
