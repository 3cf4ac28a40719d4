"""The HTML report in light and dark, in print, on small screens and without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion
from refusal_checks.reports.formats import html
from tests.chromium import ROWS, unfold, why_not
from tests.report_runs import refusals, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "there is one")


def background(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def contrast(page: Page, ink: str, paper: str) -> float:
    """The contrast of two of the style's colours, from 1 to 21 (WCAG 2.2)."""
    shades = [
        page.evaluate(
            "name => { const probe = document.body.appendChild(document.createElement('i'));"
            "probe.style.color = `var(--${name})`; const found = getComputedStyle(probe).color;"
            "probe.remove(); return found.match(/\\d+/g).map(Number); }",
            name,
        )
        for name in (ink, paper)
    ]
    light, dark = sorted(map(luminance, shades), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(shade: Sequence[int]) -> float:
    parts = (part / 255 for part in shade)
    linear = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_of_every_colour_can_be_read(page: Page, scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=scheme)
    inks = ("ink", "muted", "pass", "warn", "fail", "refusing", "answering", "invalid")
    found = {(ink, on): contrast(page, ink, on) for ink in inks for on in ("surface", "page")}
    assert {pair: ratio for pair, ratio in found.items() if ratio < 4.5} == {}


def test_what_scrolls_can_be_reached_by_keyboard(chromium: Browser, tmp_path: Path) -> None:
    long = [replace(each, completion=Completion("word " * 3000)) for each in refusals("long", 2)]
    many = [
        replace(each, prompt=Prompt.single(f"p{n}", "p", category=f"a {n}"))
        for n, each in enumerate(refusals("many", 30, 1))
    ]
    run = write_run(tmp_path / "run", {"long": long, "many": many})
    html.write([run], tmp_path / "report.html")
    page = chromium.new_page(viewport={"width": 360, "height": 800})
    page.goto((tmp_path / "report.html").as_uri())
    page.select_option("#benchmark", "long")
    unfold(page)
    page.wait_for_selector(".reply .text[tabindex]")
    scrolling = page.evaluate(
        "[...document.querySelectorAll('main *')].filter(node => node.checkVisibility() &&"
        "/auto|scroll/.test(getComputedStyle(node).overflow) &&"
        "(node.scrollHeight > node.clientHeight || node.scrollWidth > node.clientWidth))"
        ".map(node => [node.className, node.getAttribute('tabindex')])"
    )
    assert {name for name, _ in scrolling} >= {"tall", "text"}
    assert {place for _, place in scrolling} == {"0"}
    page.close()


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
    assert page.locator(".bars rect.bar").first.is_visible()
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


def test_a_narrow_screen_shows_candidates_whole_and_records_in_three_lines(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 800})
    table = page.locator(".candidates .scroll")
    assert table.evaluate("node => node.scrollWidth <= node.clientWidth")
    page.select_option("#benchmark", "unsafe")
    row = page.locator(f"{ROWS} summary").first
    boxes = row.evaluate(
        "node => [...node.children].filter(child => child.checkVisibility())"
        ".map(child => child.getBoundingClientRect())"
    )
    lines, end = 0, 0.0
    for box in sorted(boxes, key=lambda box: (box["top"] + box["bottom"]) / 2):
        lines += box["top"] >= end
        end = max(end, box["bottom"])
    assert lines == 3


def test_a_narrow_screen_shows_the_manifest_whole(chromium: Browser, tmp_path: Path) -> None:
    platform = {"platform": "Linux-6.18.44-fc-v01-x86_64-with-glibc2.36"}
    manifest = {"candidate": "m", "judge": "j", "a long name of its own": {"hardware": platform}}
    run = write_run(tmp_path / "run", {"many": list(refusals("many", 1))}, manifest=manifest)
    html.write([run], tmp_path / "report.html")
    page = chromium.new_page(viewport={"width": 360, "height": 800})
    page.goto((tmp_path / "report.html").as_uri())
    value = page.get_by_text(platform["platform"])
    assert value.evaluate("node => node.getBoundingClientRect().height") < 60
    assert value.evaluate("node => node.getBoundingClientRect().right") <= 360
    page.close()


def test_without_scripts_all_but_the_records_is_there(chromium: Browser, file: Path) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.locator("h1").all_inner_texts() == ["No", "Not decided", "2 runs compared"]
    assert page.locator("noscript p").is_visible()
    assert page.locator("#theme").is_hidden()
    context.close()
