"""The HTML report, open in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from refusal_checks.reports.page import page as html
from tests.support.chromium import ROWS, Watched, browser, why_not
from tests.support.report_runs import usual

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Show = Callable[..., "Page"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave tests in a browser to `make test-all`."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("slow")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    if why_not():
        pytest.skip(why_not())
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run with every kind of benchmark."""
    folder = tmp_path_factory.mktemp("html")
    html.write(usual(folder / "one"), folder / "report.html")
    return folder / "report.html"


@pytest.fixture
def show(chromium: Browser) -> Iterator[Show]:
    """Opens a file; whatever a test does, nothing else is fetched and nothing goes wrong."""
    opened: list[tuple[Watched, str]] = []

    def start(
        file: Path, width: int = 1200, height: int = 900, **settings: Any
    ) -> Page:
        page = chromium.new_page(
            viewport={"width": width, "height": height}, **settings
        )
        opened.append((Watched(page), file.as_uri()))
        page.goto(file.as_uri())
        return page

    yield start
    for watched, address in opened:
        assert watched.faults == []
        assert {request.partition("#")[0] for request in watched.requests} == {address}
        watched.page.close()


@pytest.fixture
def page(show: Show, file: Path) -> Page:
    """The report with all records."""
    page = show(file)
    page.wait_for_selector(ROWS)
    page.click("text=Clear")
    return page
