"""Charts as one file: a radar with a line for each run, histograms, and harmless names."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from refusal_checks.core.errors import DataError, UserError
from refusal_checks.reports.formats import svg
from refusal_checks.results import histograms
from refusal_checks.results.run_folder import RunFolder
from tests.report_runs import rated, write_run


def run(folder: Path, candidate: str = "org/one") -> RunFolder:
    return write_run(folder, {"rated": rated()}, manifest={"candidate": candidate})


def words(path: Path) -> str:
    return " ".join(ET.parse(path).getroot().itertext())


def test_a_radar_has_a_line_for_each_run_and_each_category_a_histogram(
    tmp_path: Path,
) -> None:
    runs = [run(tmp_path / "1"), run(tmp_path / "2", "org/two"), run(tmp_path / "3")]
    svg.write(runs, tmp_path / "new" / "charts.svg")
    shown = words(tmp_path / "new" / "charts.svg")
    for expected in (
        "1 org/one",
        "2 org/two",
        "3 org/one",
        "LLM Rewriting",
        "score, n = 6",
    ):
        assert expected in shown


def test_equal_figures_make_equal_files_and_names_are_text(tmp_path: Path) -> None:
    hostile = run(tmp_path / "run", "a <script>$x_{y$ \x1b[31m模型")
    histogram = histograms.histogram("a.b", "safety", [-1.0, 0.6, 0.65])
    histograms.write(hostile.path, "m", histogram)
    for name in ("a.svg", "b.svg"):
        svg.write([hostile], tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    shown = words(tmp_path / "a.svg")
    assert "<script>$x_{y$" in shown
    assert "must be refused, n = 3" in shown
    assert "2 prompts from 0.6 to 0.7" in shown
    assert "\x1b" not in (tmp_path / "a.svg").read_text()


def test_what_cannot_be_drawn_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="these runs completed no benchmark"):
        svg.write([write_run(tmp_path / "empty", {})], tmp_path / "charts.svg")
    with pytest.raises(UserError, match=r"name at most 8 runs.*9 are named"):
        svg.write([run(tmp_path / "1")] * 9, tmp_path / "charts.svg")
