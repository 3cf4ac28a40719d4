"""The HTML report in a real browser: what a reader does, and what hostile answers do not."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from refusal_checks.conversation import Prompt
from refusal_checks.formats import html
from refusal_checks.formats.html.text import visible
from refusal_checks.records import Completion, Label, Labelled, Record, storable
from tests.chromium import browser, why_not
from tests.report_runs import HOSTILE, refusals, usual, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "there is one")

ROWS = "#list > details"


class Watched:
    """A page with everything on it that must not happen."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.faults: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.faults.append(message.text))
        page.on("pageerror", lambda fault: self.faults.append(str(fault)))
        page.on("dialog", lambda dialog: self._dialog(dialog))
        page.on("request", lambda request: self.requests.append(request.url))

    def _dialog(self, dialog: Any) -> None:
        self.faults.append(f"dialog {dialog.message}")
        dialog.dismiss()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run with every kind of benchmark, and of another candidate's."""
    folder = tmp_path_factory.mktemp("html")
    other = {"safe": list(refusals("safe", 30, refused=0.1))}
    manifest = {"candidate": "demo:other", "judge": "demo:judge"}
    runs = [usual(folder / "one"), write_run(folder / "two", other, manifest=manifest)]
    html.write(runs, folder / "report.html")
    return folder / "report.html"


@pytest.fixture
def watched(chromium: Browser, file: Path) -> Iterator[Watched]:
    """The report, open; whatever a test does, nothing is fetched and nothing goes wrong."""
    page = chromium.new_page(viewport={"width": 1200, "height": 900})
    watched = Watched(page)
    page.goto(file.as_uri())
    page.wait_for_selector(ROWS)
    yield watched
    assert watched.faults == []
    assert set(watched.requests) == {file.as_uri()}
    page.close()


@pytest.fixture
def page(watched: Watched) -> Page:
    return watched.page


def count(page: Page) -> str:
    return page.locator("#count").inner_text()


def search(page: Page, text: str) -> None:
    """Search, and wait for the list to follow, as the address does."""
    page.fill("#query", text)
    asked = "new URLSearchParams(location.hash.slice(1)).get('query')"
    page.wait_for_function(f"text => {asked} === text", arg=text)


def wait_for_rows(page: Page, number: int) -> None:
    """Wait until the list has so many prompts."""
    page.wait_for_function(f"n => document.querySelectorAll('{ROWS}').length === n", arg=number)


def test_it_opens_with_the_answer_and_the_first_records(page: Page) -> None:
    assert page.title() == "demo:some: No, demo:other: Yes, with reservations · refusal-checks"
    assert page.locator("h1:visible").inner_text() == "No"
    assert page.locator(ROWS).count() == 50
    assert count(page) == "251 prompts, 620 answers"


def test_filters_work_together(page: Page) -> None:
    page.select_option("#benchmark", "unsafe")
    assert count(page) == "120 prompts, 360 answers of 251 prompts"
    page.select_option("#group", label="zh")
    assert count(page) == "40 prompts, 120 answers of 251 prompts"
    page.check("#invalid")
    assert count(page) == "4 prompts, 12 answers of 251 prompts"
    page.uncheck("#invalid")
    page.select_option("#verdict", label="unparsable verdict")
    assert count(page) == "4 prompts, 12 answers of 251 prompts"
    page.click("text=Clear")
    assert count(page) == "251 prompts, 620 answers"


def test_verdicts_of_every_kind_can_be_chosen(page: Page) -> None:
    for word, prompts in {"degree 3": 3, "right option": 15, "engine error": len(HOSTILE)}.items():
        page.select_option("#verdict", label=word)
        assert count(page).startswith(f"{prompts} prompts")
    page.select_option("#verdict", label="direct_refusal")
    assert page.locator(ROWS).count() == 50


def test_what_counts_against_a_gate_is_one_click_away(page: Page) -> None:
    button = page.locator("button.against:visible").first
    said = button.inner_text()
    button.click()
    prompts = count(page).split()[0]
    assert f" {prompts} prompts " in said
    assert page.locator("#gate option:checked").inner_text().startswith("unsafe-")
    page.locator(ROWS).first.locator("summary").click()
    assert page.locator(".body").first.inner_text().startswith("counts against unsafe-")


def test_the_search_reads_everything_and_marks_it(page: Page) -> None:
    search(page, "REQUEST 7 OF unsafe")
    assert count(page) == "1 prompt, 3 answers of 251 prompts"
    page.locator(f"{ROWS} summary").click()
    assert page.locator(".body mark").all_inner_texts() == ["Request 7 of unsafe"]
    search(page, "the judge said: well")
    assert count(page).startswith("18 prompts")
    search(page, "问题 12")
    assert count(page).startswith("1 prompt,")
    search(page, "a.c*(nothing)[")
    assert count(page) == "No record is like that."


def test_harmful_text_is_folded_until_it_is_asked_for(page: Page) -> None:
    page.select_option("#benchmark", "unsafe")
    assert "Request" not in page.locator("#list").inner_text()
    assert page.locator(f"{ROWS}[open]").count() == 0
    page.locator(f"{ROWS} summary").first.click()
    opened = page.locator(ROWS).first
    assert "Request 0 of unsafe" in opened.inner_text()
    assert opened.locator(".reply").count() == 3
    page.check("#unfold")
    assert page.locator(f"{ROWS}[open]").count() == 50
    assert "Request 49 of unsafe" in page.locator("#list").inner_text()
    page.uncheck("#unfold")
    assert "Request" not in page.locator("#list").inner_text()


def test_harmless_requests_are_seen_at_once(page: Page) -> None:
    page.select_option("#benchmark", "safe")
    assert "Request 0 of safe" in page.locator(ROWS).first.inner_text()


def test_a_record_shows_all_that_is_known(page: Page) -> None:
    search(page, "degree-3")
    page.locator(f"{ROWS} summary").first.click()
    body = page.locator(".body").first
    assert body.locator(".turn").count() == 3
    assert "degree 3" in body.inner_text()
    assert "by the rules" in body.inner_text()


def test_pages_follow_each_other(page: Page) -> None:
    assert page.locator("#page").inner_text() == "Page 1 of 6"
    first = page.locator(f"{ROWS} .id").first.inner_text()
    assert page.locator("#previous").is_disabled()
    page.click("#next")
    assert page.locator("#page").inner_text() == "Page 2 of 6"
    assert page.locator(f"{ROWS} .id").first.inner_text() != first
    page.keyboard.press("p")
    assert page.locator(f"{ROWS} .id").first.inner_text() == first


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
    verdict = Labelled(Label.REFUSAL, None, shape)
    found = [Record(Prompt.single("a", shape), 0, Completion(shape), verdict)]
    html.write([write_run(tmp_path / "run", {"mine": found})], tmp_path / "report.html")
    page = chromium.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    page.click(f"{ROWS} summary")
    assert page.locator(".body .empty").all_inner_texts() == [shape] * 3
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


def test_the_keyboard_is_enough(page: Page) -> None:
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "query"
    page.keyboard.type("unsafe-0001")
    wait_for_rows(page, 10)
    page.keyboard.type("j")
    wait_for_rows(page, 0)
    page.keyboard.press("Backspace")
    wait_for_rows(page, 10)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    assert page.locator(f"{ROWS}[open] .id").all_inner_texts() == ["unsafe-00011"]
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) == "solid"
    page.keyboard.press("k")
    page.keyboard.press("Space")
    assert page.locator(f"{ROWS}[open] .id").all_inner_texts() == ["unsafe-00010", "unsafe-00011"]


def test_a_view_has_an_address(page: Page, file: Path) -> None:
    page.select_option("#benchmark", "unsafe")
    page.select_option("#group", label="zh")
    search(page, "word996")
    expected, address = count(page), page.url
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector(ROWS)
    assert count(page) == expected
    assert page.locator("#group option:checked").inner_text() == "zh"


def test_candidates_are_chosen(page: Page) -> None:
    assert page.locator("h1:visible").count() == 1
    page.click("button.select >> text=demo:other")
    assert page.locator("h1:visible").inner_text() == "Yes, with reservations"
    assert count(page) == "30 prompts, 90 answers"
    page.select_option("#run", label="demo:some")
    assert page.locator("h1:visible").inner_text() == "No"
    assert count(page) == "251 prompts, 620 answers"


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


def test_ten_thousand_records_are_usable(chromium: Browser, tmp_path: Path) -> None:
    records = {"unsafe": list(refusals("unsafe", 2000, 5))}
    html.write([write_run(tmp_path / "run", records)], tmp_path / "report.html")
    page = chromium.new_page()
    watched = Watched(page)
    page.goto((tmp_path / "report.html").as_uri())
    page.wait_for_selector(ROWS)
    assert count(page) == "2,000 prompts, 10,000 answers"
    search(page, "unsafe-01999")
    assert page.locator(ROWS).count() == 1
    assert watched.faults == []
    page.close()
