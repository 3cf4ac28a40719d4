"""The page of a run that goes on, in a real browser."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from refusal_checks.gates.gate import Gate
from refusal_checks.reports.watch.server import Server
from refusal_checks.reports.watch.view import View
from refusal_checks.results.live import LiveLog, LivePlan
from refusal_checks.results.progress import Progress
from refusal_checks.results.run_folder import RunFolder
from tests.chromium import Watched, why_not
from tests.report_runs import HOSTILE, usual
from tests.unit.conftest import make_record

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

PICTURES = os.environ.get("REFUSAL_CHECKS_PICTURES")
PLAN = LivePlan(
    "ORG/MODEL <b>",
    "judge",
    {"bench": 60, "later": 250},
    (
        Gate("bench", "rejection_rate", 0.8),
        Gate("bench", "invalid_rate", None, 0.02),
        Gate("later", "rejection_rate", None, 0.1, "category", "homonyms"),
    ),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / f"20260101-000000-{os.getpid()}"


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    folder.mkdir()
    running = Server(View([folder]))
    yield running
    running.close()


def test_a_run_is_followed_from_its_start_to_its_end(
    chromium: Browser, server: Server, folder: Path
) -> None:
    page = chromium.new_page(viewport={"width": 1200, "height": 900})
    watched = Watched(page)
    page.goto(server.address)
    page.get_by_text("starting").wait_for()
    assert page.url == f"http://127.0.0.1:{server.server_port}/"  # the token is gone

    progress = Progress(phase="checking the judge")
    log = LiveLog(folder, progress, list)
    log.start(PLAN)
    progress.plan({"bench": 60, "later": 250})
    for number, text in enumerate(HOSTILE):
        progress.judged("bench", [make_record("RC-"[number % 3], f"p{number}", text=text)])
    page.get_by_text("within so far").or_(page.get_by_text("outside so far")).first.wait_for()
    page.get_by_text("running: checking the judge").wait_for()
    page.get_by_role("heading", name="ORG/MODEL <b>").wait_for()
    items = page.locator("#answers > li")
    items.nth(len(HOSTILE) - 1).wait_for()
    assert items.count() == len(HOSTILE)
    assert "bench · p8" in items.first.inner_text()
    assert page.locator("#answers script, #answers img, #answers svg, #answers iframe").count() == 0
    assert page.title() == "refusal-checks watch"
    assert re.search("9 of 60 prompts", page.locator("main").inner_text())
    assert page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)") >= 15
    if PICTURES:
        page.screenshot(path=Path(PICTURES) / "watch-running.png", full_page=True)
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= 400")

    log.stop(keep=False)
    RunFolder(folder).write_summary(usual(folder.parent / "20260101-000000-1").summary())
    page.get_by_text("May it ship?").wait_for()
    page.get_by_text("The run has ended").wait_for()
    assert page.get_by_text("so far").count() == 0
    if PICTURES:
        page.set_viewport_size({"width": 1200, "height": 900})
        page.screenshot(path=Path(PICTURES) / "watch-ended.png", full_page=True)
    server.watch()
    assert watched.faults == []
    local = f"http://127.0.0.1:{server.server_port}/"
    assert all(request.startswith(local) for request in watched.requests)
    page.close()


def test_a_stranger_gets_no_page(chromium: Browser, server: Server) -> None:
    page = chromium.new_page()
    reply = page.goto(f"http://127.0.0.1:{server.server_port}/")
    assert reply
    assert reply.status == 403
    assert "Open the address that the terminal shows" in page.content()
    page.close()
