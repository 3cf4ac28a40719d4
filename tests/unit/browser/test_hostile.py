"""What hostile answers do not do to the HTML report."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.text import storable
from refusal_checks.core.verdicts import Binary, Label
from refusal_checks.reports.formats import html
from refusal_checks.reports.page.render import visible
from tests.chromium import ROWS, unfold, why_not
from tests.report_runs import HOSTILE, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "there is one")


def test_hostile_answers_are_text(page: Page) -> None:
    title, elements = page.title(), page.evaluate("document.querySelectorAll('script').length")
    page.select_option("#benchmark", "hostile")
    page.check("#unfold")
    rows = page.locator(ROWS)
    assert rows.count() == len(HOSTILE)
    for number, text in enumerate(HOSTILE):
        replies = rows.nth(number).locator(".reply .text")
        assert replies.first.text_content() == visible(storable(text))
        assert rows.nth(number).locator(".turn .text").first.text_content() == visible(
            storable(text)
        )
    tags = "#records :is(script, img, svg, iframe, object, a, style, link)"
    assert page.locator(tags).count() == 0
    assert page.evaluate("document.querySelectorAll('script').length") == elements
    assert page.title() == title
    assert page.evaluate("document.body.id") == ""
    shown = page.locator("#list").inner_text()
    assert not set(shown) & set("\x1b\x00\x07\x7f\u202e\u2066\u200f\u2028")


def test_the_page_shows_characters_as_python_does(page: Page) -> None:
    chars = [chr(n) for n in range(0x30000) if unicodedata.category(chr(n)) not in ("Cn", "Cs")]
    shown = page.evaluate("chars => chars.map(visible).map((text) => [...text].join())", chars)
    assert shown == [visible(char) for char in chars]
    assert page.evaluate("visible('\\r\\n\\ud800a')") == visible("\r\n\ud800a")


def test_redacted_texts_are_told_from_answers(chromium: Browser, tmp_path: Path) -> None:
    shape = "[redacted: sha256 0123456789ab, 12 characters]"
    verdict = Binary(Label.REFUSAL, None, shape)
    found = [Record(Prompt.single("a", shape), 0, Completion(shape), verdict)]
    html.write([write_run(tmp_path / "run", {"mine": found})], tmp_path / "report.html")
    page = chromium.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    assert unfold(page).locator(".empty").all_inner_texts() == [shape] * 3
    page.close()


def test_hostile_answers_stay_in_their_place(page: Page) -> None:
    page.select_option("#benchmark", "hostile")
    page.check("#unfold")
    styles = page.evaluate(
        "[...document.querySelectorAll('#list .text')].map(node =>"
        "[node.dir, getComputedStyle(node).unicodeBidi, node.scrollWidth <= node.clientWidth])"
    )
    assert {tuple(style) for style in styles} == {("auto", "isolate", True)}
    assert page.evaluate("document.documentElement.scrollWidth") == 1200
