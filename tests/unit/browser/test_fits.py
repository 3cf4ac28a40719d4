"""The page at any width, and axe-core on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from tests.support.chromium import serious_faults
from tests.unit.browser.conftest import Show

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(
    show: Show, file: Path, scheme: Literal["light", "dark"]
) -> None:
    page = show(file, color_scheme=scheme)
    page.evaluate(
        "for (const node of document.querySelectorAll('details')) node.open = true"
    )
    assert serious_faults(page) == {}


BROKEN = """
const names = [...document.querySelectorAll(".board bdi")];
names.flatMap(name => [...name.childNodes]).filter(piece => {
  const range = document.createRange();
  range.selectNodeContents(piece);
  return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1;
}).map(piece => piece.data)
"""
"""The words in names of runs and gates that stand on more than one line."""


LONG = (
    "all => all.forEach(node => node.textContent = 'a_benchmark_of_our_own'.repeat(9))"
)


@pytest.mark.parametrize("width", [360, 900, 1600])
def test_the_page_fits_any_width_and_breaks_no_word_of_a_name(
    page: Page, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate(BROKEN) == []
    page.select_option("#benchmark", "hostile")
    page.check("#unfold")
    page.locator(".answer :is(h1, li, p)").evaluate_all(LONG)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
