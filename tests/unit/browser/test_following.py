"""The page of a run that goes on: it reloads itself, keeps its reader's place, and ends."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from refusal_checks.gates.gate import Gate
from refusal_checks.reports.formats import html
from refusal_checks.reports.page import follow
from refusal_checks.reports.page.follow import LivePage
from tests.chromium import ROWS, count, serious_faults
from tests.report_runs import hostile, judge, tell, underway, usual
from tests.unit.browser.conftest import Show


@pytest.fixture
def follower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LivePage]:
    """The page of a run that has judged nine hostile answers; the test writes it."""
    monkeypatch.setattr(follow, "LOOK", 60)
    monkeypatch.setattr(follow, "EVERY", 0.5)
    run = underway(tmp_path, [Gate("hostile", "rejection_rate", 0.8)], hostile=60)
    found = LivePage([run], tmp_path / "page.html", print)
    tell(run, found.see)
    judge(run, hostile())
    found.write()
    yield found
    found.stop()


def test_a_run_is_followed_from_its_start_to_its_end(
    show: Show, follower: LivePage, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    page = show(file, 390, 700)
    page.click("#pause")
    assert page.locator("h1").inner_text() == "15% judged"
    assert page.get_by_text("outside so far").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= 390")
    page.select_option("#verdict", index=1)
    shown = count(page)
    page.locator(f"{ROWS} summary").first.click()
    page.locator(f"{ROWS} .body").wait_for()
    page.click("#theme")
    page.evaluate("scrollTo(0, 600)")
    assert not serious_faults(page)
    page.evaluate(
        "() => { window.before = true; document.getElementById('pause').click(); }"
    )
    page.wait_for_function("() => !window.before && scrollY === 600")
    assert count(page) == shown
    assert page.locator(f"{ROWS}[open]").count() == 1
    assert page.locator("#theme").inner_text() == "Light"
    html.write([usual(tmp_path / "run")], file)
    page.wait_for_function("() => !document.getElementById('going')")
    page.wait_for_function("() => scrollY === 0")
    assert page.locator("h1").inner_text() == "No"
    page.evaluate("window.before = true")
    page.wait_for_timeout(1200)
    assert page.evaluate("window.before")


def test_a_page_that_is_old_does_not_claim_that_its_run_goes_on(
    show: Show, follower: LivePage, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    then = re.sub(r'data-written="\d+', 'data-written="2020', file.read_text())
    file.write_text(then)
    page = show(file)
    assert "the run has probably been killed" in page.locator("#going").inner_text()
    assert (
        page.locator("#going").evaluate("node => node.parentElement.className")
        == "going old"
    )
