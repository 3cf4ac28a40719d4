"""The pages of many runs in a real browser, and axe-core on every page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from refusal_checks.reports.page.page import write_comparison, write_history
from refusal_checks.reports.page.several import side_by_side
from refusal_checks.reports.page.trends import collect
from refusal_checks.results.run_folder import RunView
from tests.chromium import serious_faults
from tests.many_runs import manifest, opened, write_runs
from tests.report_runs import refusals, write_run
from tests.unit.browser.conftest import Show

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, file: Path) -> dict[str, Path]:
    """One page of every kind."""
    folder = tmp_path_factory.mktemp("many")
    write_runs(folder / "runs", 12, 2)
    write_history(collect(folder / "runs"), folder / "history.html")
    other = {"models": {"judges": {"org/judge": {"version": "other"}}}}
    long = {
        "candidate": "mistralai/Mistral-Small-3.2-24B-Instruct-2506_release_candidate"
    }
    facts: dict[str, dict[str, Any]] = {"one": {}, "two": long, "three": other}
    runs = []
    for number, (name, more) in enumerate(facts.items()):
        records = {"unsafe": list(refusals("unsafe", 40, 1, refused=0.9 - number / 4))}
        run = write_run(folder / name, records, manifest=manifest(number, **more))
        runs.append(RunView.read(run.path))
    write_comparison(side_by_side(runs), folder / "compare.html")
    return {
        "report": file,
        "history": folder / "history.html",
        "compare": folder / "compare.html",
    }


@pytest.fixture
def history(show: Show, pages: dict[str, Path]) -> Page:
    return show(pages["history"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["report", "history", "compare"])
def test_axe_finds_no_serious_fault(
    show: Show, pages: dict[str, Path], name: str, scheme: Literal["light", "dark"]
) -> None:
    page = show(pages[name], color_scheme=scheme)
    page.evaluate(
        "for (const node of document.querySelectorAll('details')) node.open = true"
    )
    assert serious_faults(page) == {}


def test_runs_are_filtered(history: Page) -> None:
    rows = history.locator("#all-runs tbody tr:visible")
    assert rows.count() == 12
    assert history.locator("#run-count").inner_text() == "12 of 12 runs shown"
    history.select_option("#judge", "org/other")
    assert rows.count() == 3
    assert history.locator("figure.trend:visible").count() == 4
    history.select_option("#judge", "org/judge")
    line = history.locator("figure.trend:visible polyline.trend").first
    assert len(str(line.get_attribute("points")).split()) == 9
    history.select_option("#candidate", "org/model-0")
    assert rows.count() == 3
    assert len(str(line.get_attribute("points")).split()) == 3
    history.select_option("#suite", "suite_1")
    assert history.locator("figure.trend:visible").count() == 2
    history.select_option("#candidate", "org/model-3")
    assert history.locator("#run-count").inner_text() == "No run matches these filters."
    history.click("text=Clear")
    assert rows.count() == 12
    assert history.locator("figure.trend:visible").count() == 8


def test_clear_shows_all_runs_at_once(history: Page) -> None:
    history.select_option("#candidate", "org/model-0")
    said = history.evaluate(
        "() => { document.querySelector('#run-filters button').click();"
        "return document.getElementById('run-count').textContent }"
    )
    assert said == "12 of 12 runs shown"
    assert history.locator("#candidate").input_value() == ""


def test_no_line_joins_runs_of_two_judges(history: Page) -> None:
    judges = history.locator("figure.trend").evaluate_all(
        "figures => figures.map(each => [each.dataset.judge, each.querySelectorAll('.dot').length])"
    )
    assert sorted(judges) == [["org/judge", 9]] * 4 + [["org/other", 3]] * 4


BROKEN = """
const names = [...document.querySelectorAll(":is(.board, .candidates) bdi")];
names.flatMap(name => [...name.childNodes]).filter(piece => {
  const range = document.createRange();
  range.selectNodeContents(piece);
  return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1;
}).map(piece => piece.data)
"""
"""The words in names of runs and gates that stand on more than one line."""


@pytest.mark.parametrize("name", ["report", "history", "compare"])
@pytest.mark.parametrize("width", [390, 900, 1200])
def test_pages_fit_any_width_and_break_no_word_of_a_name(
    show: Show, pages: dict[str, Path], name: str, width: int
) -> None:
    page = show(pages[name], width, 800)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(BROKEN) == []


def test_runs_that_cannot_be_compared_stand_apart(
    show: Show, pages: dict[str, Path]
) -> None:
    page = show(pages["compare"])
    assert page.locator("#gates thead .apart").all_inner_texts() == [
        "3 org/model-2\nshown apart"
    ]
    assert (
        page.locator("#gates tbody .apart .change")
        .first.inner_text()
        .startswith("not compared")
    )
    page.locator("#moved summary").first.click()
    page.locator("#moved .record summary").first.click()
    assert "Run 1: refusal" in page.locator("#moved .record .body").first.inner_text()


def test_the_page_of_200_runs_opens_at_once(chromium: Browser, tmp_path: Path) -> None:
    write_runs(tmp_path / "runs", 200)
    write_history(collect(tmp_path / "runs"), tmp_path / "history.html")
    # Machines of tests are slow and busy: the best of three attempts.
    assert min(opened(chromium, tmp_path / "history.html") for _ in range(3)) < 2


def test_several_candidates_stand_side_by_side_in_a_tab(show: Show, file: Path) -> None:
    page = show(file)
    tab = page.get_by_role("tab", name="Side by side")
    assert page.locator("#gates").is_hidden()
    page.get_by_role("tab", name="Runs").press("ArrowRight")
    assert tab.get_attribute("aria-selected") == "true"
    assert (
        page.locator("#gates thead")
        .inner_text()
        .startswith("Gate	1 demo:some	2 demo:other")
    )
    assert page.locator("#records").is_hidden()
    assert serious_faults(page) == {}
