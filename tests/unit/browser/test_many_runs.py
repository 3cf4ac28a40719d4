"""The page of several runs in a real browser, and axe-core on every page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from refusal_checks.reports.page.page import write_comparison
from refusal_checks.reports.page.several import side_by_side
from refusal_checks.results.run_folder import RunView
from tests.chromium import serious_faults
from tests.many_runs import manifest
from tests.report_runs import refusals, write_run
from tests.unit.browser.conftest import Show

if TYPE_CHECKING:
    pass


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, file: Path) -> dict[str, Path]:
    """One page of every kind."""
    folder = tmp_path_factory.mktemp("many")
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
        "compare": folder / "compare.html",
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["report", "compare"])
def test_axe_finds_no_serious_fault(
    show: Show, pages: dict[str, Path], name: str, scheme: Literal["light", "dark"]
) -> None:
    page = show(pages[name], color_scheme=scheme)
    page.evaluate(
        "for (const node of document.querySelectorAll('details')) node.open = true"
    )
    assert serious_faults(page) == {}


BROKEN = """
const names = [...document.querySelectorAll(":is(.board, .candidates) bdi")];
names.flatMap(name => [...name.childNodes]).filter(piece => {
  const range = document.createRange();
  range.selectNodeContents(piece);
  return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1;
}).map(piece => piece.data)
"""
"""The words in names of runs and gates that stand on more than one line."""


@pytest.mark.parametrize("name", ["report", "compare"])
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
