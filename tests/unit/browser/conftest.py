"""The HTML report, open in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from refusal_checks.reports.formats import html
from tests.chromium import ROWS, Watched, browser
from tests.report_runs import refusals, usual, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run with every kind of benchmark, and of another candidate's."""
    folder = tmp_path_factory.mktemp("html")
    other = {"safe": list(refusals("safe", 30, refused=0.1))}
    manifest = {"candidate": "demo:other", "judge": "demo:judge"}
    runs = [usual(folder / "one"), write_run(folder / "two", other, manifest=manifest)]
    html.write(runs, folder / "report.html")
    return folder / "report.html"


@pytest.fixture
def watched(chromium: Browser, file: Path) -> Iterator[Watched]:
    """The report with all records; whatever a test does, nothing is fetched or goes wrong."""
    page = chromium.new_page(viewport={"width": 1200, "height": 900})
    watched = Watched(page)
    page.goto(file.as_uri())
    page.wait_for_selector(ROWS)
    page.click("text=Clear")
    yield watched
    assert watched.faults == []
    assert set(watched.requests) == {file.as_uri()}
    page.close()


@pytest.fixture
def page(watched: Watched) -> Page:
    return watched.page
