"""How the HTML report looks: its colours, in print, on any screen, with hostile texts."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

from refusal_checks.core.judgements import Binary, Label
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.text import replace_surrogates
from refusal_checks.gates.gate import Gate
from refusal_checks.reports.page import page as html
from refusal_checks.reports.page.render import visible
from tests.support.chromium import ROWS, unfold
from tests.support.report_runs import HOSTILE, TEXTS, hostile, write_run
from tests.unit.browser.conftest import Show

if TYPE_CHECKING:
    from playwright.sync_api import Page


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
    assert page.locator(".bars rect.bar").first.is_visible()
    assert background(page) == "rgb(255, 255, 255)"
    assert page.locator("h1:visible").count() == 1
    page.set_viewport_size({"width": 720, "height": 1000})
    assert page.evaluate("document.documentElement.scrollWidth") == 720


def test_a_narrow_screen_shows_records_in_three_lines(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 800})
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


def test_without_scripts_all_but_the_records_is_there(show: Show, file: Path) -> None:
    page = show(file, java_script_enabled=False)
    assert page.locator("h1").all_inner_texts() == ["No"]
    assert page.locator("noscript p").is_visible()
    assert page.locator("#theme").is_hidden()


def test_hostile_answers_are_text(page: Page) -> None:
    title, scripts = page.title(), page.locator("script").count()
    page.select_option("#benchmark", "hostile")
    page.check("#unfold")
    rows = page.locator(ROWS)
    assert rows.count() == len(HOSTILE)
    for number, text in enumerate(HOSTILE):
        for place in (".reply .text", ".turn .text"):
            shown = rows.nth(number).locator(place).first.text_content()
            assert shown == visible(replace_surrogates(text))
    tags = "#records :is(script, img, svg, iframe, object, a, style, link)"
    assert page.locator(tags).count() == 0
    assert page.locator("script").count() == scripts
    assert page.title() == title
    assert page.evaluate("document.body.id") == ""
    whole = page.locator("#list").inner_text()
    assert not set(whole) & set("\x1b\x00\x07\x7f\u202e\u2066\u200f\u2028")
    styles = page.evaluate(
        "[...document.querySelectorAll('#list .text')].map(node =>"
        "[node.dir, getComputedStyle(node).unicodeBidi, node.scrollWidth <= node.clientWidth])"
    )
    assert {tuple(style) for style in styles} == {("auto", "isolate", True)}
    assert page.evaluate("document.documentElement.scrollWidth") == 1200


def test_hundreds_of_hostile_texts_do_nothing(show: Show, tmp_path: Path) -> None:
    gate = Gate("hostile", "rejection_rate", min=0.9)
    run = write_run(tmp_path / "one", {"hostile": hostile(TEXTS)}, [gate])
    html.write(run, tmp_path / "report.html")
    page = show(tmp_path / "report.html")
    address, title = page.url.partition("#")[0], page.title()
    page.click("text=Clear")
    page.check("#unfold")
    seen = page.locator(f"{ROWS}[open]").count()
    while page.locator("#next").is_enabled():
        page.click("#next")
        seen += page.locator(f"{ROWS}[open]").count()
    assert seen == len(TEXTS)
    for text in TEXTS[::60]:
        page.fill("#query", replace_surrogates(text[:100]))
        page.wait_for_timeout(200)  # until it has been searched for, and would act
    tags = ":is(img, svg, iframe, object, embed, form, meta, base, link, video, style, script)"
    assert page.locator(f"#list {tags}, #list a[href]").count() == 0
    assert (page.url.partition("#")[0], page.title()) == (address, title)
    assert len(page.context.pages) == 1


def test_the_page_shows_characters_as_python_does(page: Page) -> None:
    chars = [
        chr(n)
        for n in range(0x30000)
        if unicodedata.category(chr(n)) not in ("Cn", "Cs")
    ]
    shown = page.evaluate(
        "chars => chars.map(visible).map((text) => [...text].join())", chars
    )
    assert shown == [visible(char) for char in chars]
    assert page.evaluate("visible('\\r\\n\\ud800a')") == visible("\r\n\ud800a")


def test_redacted_texts_are_told_from_answers(show: Show, tmp_path: Path) -> None:
    shape = "[redacted: sha256 0123456789ab, 12 characters]"
    verdict = Binary(Label.REFUSAL, None, shape)
    found = [Record(Prompt.single("a", shape), 0, Completion(shape), verdict)]
    html.write(write_run(tmp_path / "run", {"mine": found}), tmp_path / "report.html")
    page = show(tmp_path / "report.html")
    assert unfold(page).locator(".empty").all_inner_texts() == [shape] * 3
