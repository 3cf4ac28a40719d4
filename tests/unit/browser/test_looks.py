"""The HTML report in light and dark, in print, on small screens and without scripts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.chromium import why_not

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "there is one")


def background(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_dark_and_light(page: Page) -> None:
    light = background(page)
    page.emulate_media(color_scheme="dark")
    dark = background(page)
    assert dark != light
    page.click("#theme")
    assert background(page) == light
    page.click("#theme")
    assert background(page) == dark


def test_print_has_the_board_and_no_records(page: Page) -> None:
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator("#list").is_hidden()
    assert page.locator("#filters").is_hidden()
    assert page.locator("table.board").first.is_visible()
    assert page.locator(".card").first.is_visible()
    assert background(page) == "rgb(255, 255, 255)"
    assert page.locator("h1:visible").count() == 2
    page.set_viewport_size({"width": 720, "height": 1000})
    assert page.evaluate("document.documentElement.scrollWidth") == 720


@pytest.mark.parametrize("width", [360, 768, 1600])
def test_it_fits_any_width(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.select_option("#benchmark", "hostile")
    page.check("#unfold")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_without_scripts_all_but_the_records_is_there(chromium: Browser, file: Path) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.locator("h1").all_inner_texts() == ["No", "Yes, with reservations"]
    assert page.locator("noscript p").is_visible()
    assert page.locator("#theme").is_hidden()
    context.close()
