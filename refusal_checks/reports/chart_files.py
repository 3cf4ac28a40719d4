"""Charts of graded safety: a radar over categories, and histograms of their scores.

Figures are drawn without matplotlib's global state, and come as SVG text or as a file.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from refusal_checks.core.errors import UserError
from refusal_checks.core.extensions import require_extra
from refusal_checks.core.text import clean
from refusal_checks.metrics.statistics.descriptive import Distribution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#000000")
"""Okabe and Ito's palette for all kinds of colour vision; the candidate has the first."""

SIGNIFICANT = 0.05
"""Histograms whose dip test has a p-value below this level are marked."""

FORMATS = (".svg", ".png", ".pdf")


def radar(series: Mapping[str, Mapping[str, float]], highest: float, title: str = "") -> Figure:
    """Scores by category as one closed line per series, the first one filled.

    Args:
        series: score by category, by name; at most eight. A missing category leaves a gap.
        highest: end of the axis, which begins at 0.
        title: of the figure.
    """
    require_extra("matplotlib", "charts", "charts are drawn by")
    import numpy as np
    from matplotlib.figure import Figure

    categories = list(dict.fromkeys(name for scores in series.values() for name in scores))
    angles = np.linspace(0, 2 * np.pi, len(categories), endpoint=False)
    figure = Figure(figsize=(9, 8), layout="constrained")
    axes = figure.add_subplot(projection="polar")
    axes.set_theta_offset(np.pi / 2)  # type: ignore[attr-defined]
    axes.set_theta_direction(-1)  # type: ignore[attr-defined]
    axes.set_ylim(0, highest)
    axes.set_xticks(angles, [_label(name) for name in categories])
    axes.tick_params(axis="x", pad=18)
    axes.grid(color="#cccccc", linewidth=0.6)
    closed = [*angles, *angles[:1]]
    for colour, (name, scores) in zip(COLOURS, series.items(), strict=False):
        values = [scores.get(category, np.nan) for category in categories]
        first = name == next(iter(series))
        line = [*values, *values[:1]]
        (drawn,) = axes.plot(closed, line, "--o", color=colour, markersize=3, label=_name(name))
        if first:
            drawn.set(linestyle="-", linewidth=2.5)
            axes.fill(closed, line, color=colour, alpha=0.15)
    axes.legend(loc="upper left", bbox_to_anchor=(-0.25, 1.12), frameon=False)
    figure.suptitle(_name(title))
    return figure


def histograms(distributions: Mapping[str, Distribution], title: str = "") -> Figure:
    """One histogram per category, with its statistics of bimodality."""
    require_extra("matplotlib", "charts", "charts are drawn by")
    from matplotlib.figure import Figure

    columns = min(5, max(1, len(distributions)))
    rows = -(-len(distributions) // columns) or 1
    figure = Figure(figsize=(3.1 * columns, 2.7 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    shown = [axes for line in grid for axes in line]
    for axes, (name, found) in zip(shown, distributions.items(), strict=False):
        _histogram(axes, name, found)
    for axes in shown[len(distributions) :]:
        axes.set_axis_off()
    figure.suptitle(_name(title))
    note = f"orange: more than one peak (dip test, p < {SIGNIFICANT})"
    figure.supxlabel(note, fontsize=8, color="#555555")
    return figure


def _histogram(axes: Axes, name: str, found: Distribution) -> None:
    width = (found.highest - found.lowest) / len(found.counts)
    left = [found.lowest + width * number for number in range(len(found.counts))]
    two = found.p_value is not None and found.p_value < SIGNIFICANT
    axes.bar(left, found.counts, width, align="edge", color=COLOURS[1 if two else 0])
    axes.set_xlim(found.lowest, found.highest)
    heading = _name(" ".join(words(name)))
    axes.set_title(f"{heading}\n{statistics(found)}", fontsize=8)
    axes.tick_params(labelsize=7)


def statistics(found: Distribution) -> str:
    """Size and statistics of a distribution, in a few words."""
    if found.bimodality is None:
        return f"n = {found.n}, too few different scores to test"
    shown = f"n = {found.n}, bimodality {found.bimodality:.2f}"
    if found.p_value is None:
        return f"{shown}, no dip test (install refusal-checks[cfsafety])"
    return f"{shown}, dip p {'< 0.001' if found.p_value < 0.001 else f'= {found.p_value:.3f}'}"


def svg(figure: Figure) -> str:
    """The figure as an SVG element; equal figures give equal text."""
    buffer = io.BytesIO()
    with _drawing():
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue().decode()
    return text[text.index("<svg") :]


def write(figure: Figure, path: Path) -> None:
    """Write the figure into a file, in the format that its name ends in.

    Raises:
        UserError: the format is not in ``FORMATS``, or the file cannot be written.
    """
    if path.suffix.lower() not in FORMATS:
        raise UserError(f"{path}: name a file that ends in {', '.join(FORMATS)}")
    date = _DATE.get(path.suffix.lower())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _drawing():
            figure.savefig(path, dpi=150, metadata={date: None} if date else None)
    except OSError as fault:
        raise UserError(f"{path}: cannot be written: {fault.strerror}") from None


_DATE = {".svg": "Date", ".pdf": "CreationDate"}
"""The metadata that would make files of equal charts differ."""


@contextmanager
def _drawing() -> Iterator[None]:
    import matplotlib

    settings = matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "refusal-checks"})
    with warnings.catch_warnings(), settings:
        # Characters that the font lacks are drawn as boxes; SVG keeps them as text.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def _label(name: str) -> str:
    """A category's name, one word per line."""
    return "\n".join(_name(word) for word in words(name))


def words(name: str) -> Sequence[str]:
    """The words of a category: ``LLMRewriting_Persuasion`` is LLM, Rewriting, Persuasion."""
    return re.split(r"_|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", name)


def _name(text: str) -> str:
    """Text that matplotlib shows literally: without control characters and mathematics."""
    return clean(text, 60).replace("$", r"\$")
