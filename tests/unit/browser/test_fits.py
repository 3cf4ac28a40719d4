"""The page at any width, and axe-core on it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from tests.support.chromium import serious_faults
from tests.unit.browser.conftest import Show


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


@pytest.mark.parametrize("width", [390, 900, 1200])
def test_the_page_fits_any_width_and_breaks_no_word_of_a_name(
    show: Show, file: Path, width: int
) -> None:
    page = show(file, width, 800)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(BROKEN) == []
