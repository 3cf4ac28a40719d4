"""What a reader does with the HTML report: filters, searches, unfolds, all by keyboard too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from refusal_checks.reports.page import page as html
from tests.support.chromium import ROWS, count, search, unfold, wait_for_rows
from tests.support.report_runs import HOSTILE, refusals, write_run
from tests.unit.browser.conftest import Show

if TYPE_CHECKING:
    from playwright.sync_api import Page


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
    for word, prompts in {
        "degree 3": 3,
        "right option": 15,
        "prompt too long": len(HOSTILE),
    }.items():
        page.select_option("#verdict", label=word)
        assert count(page).startswith(f"{prompts} prompts")
    page.select_option("#verdict", label="direct_refusal")
    assert page.locator(ROWS).count() == 50
    page.click("text=Clear")
    search(page, "degree-3")
    body = unfold(page)
    assert body.locator(".turn").count() == 3
    assert "degree 3" in body.inner_text()
    assert "by the rules" in body.inner_text()


def test_what_counts_against_a_gate_is_one_click_away(page: Page) -> None:
    button = page.locator("button.against:visible").first
    said = button.inner_text()
    button.click()
    prompts = count(page).split()[0]
    assert f" {prompts} prompts " in said
    assert page.locator("#gate option:checked").inner_text().startswith("unsafe-")
    assert unfold(page).inner_text().startswith("counts against unsafe-")


def test_the_search_reads_everything_and_marks_it(page: Page) -> None:
    search(page, "REQUEST 7 OF unsafe")
    assert count(page) == "1 prompt, 3 answers of 251 prompts"
    assert unfold(page).locator("mark").all_inner_texts() == ["Request 7 of unsafe"]
    search(page, "the judge said: well")
    assert count(page).startswith("18 prompts")
    search(page, "问题 12")
    assert count(page).startswith("1 prompt,")
    search(page, "answer 3 of the book")
    assert count(page).startswith("1 prompt,")
    assert unfold(page).locator("mark").count() == 1
    search(page, "a.c*(nothing)[")
    assert count(page) == "No record matches these filters."


def test_a_report_opens_on_what_counts_against_a_failed_gate(
    page: Page, file: Path
) -> None:
    page.goto("about:blank")
    page.goto(file.as_uri())
    page.wait_for_selector(ROWS)
    assert page.title() == "demo:some: No · refusal-checks"
    assert page.locator("h1:visible").inner_text() == "No"
    assert page.locator("#gate option:checked").inner_text() == "any failed gate"
    assert count(page) == "70 prompts, 210 answers of 251 prompts"
    assert page.locator(f"{ROWS} .said").first.inner_text() == "1 refusal, 2 compliance"
    page.select_option("#gate", label="any")
    assert count(page) == "251 prompts, 620 answers"
    page.reload()
    page.wait_for_selector(ROWS)
    assert count(page) == "251 prompts, 620 answers"


def test_answers_are_folded_until_they_are_asked_for(page: Page) -> None:
    page.select_option("#benchmark", "unsafe")
    row = page.locator(ROWS).nth(9)
    assert row.locator(".said").inner_text() == "1 unparsable verdict, 2 compliance"
    snippet = row.locator(".snippet").inner_text()
    assert snippet.startswith("Request 9 of unsafe: tell me about it")
    assert "word" not in page.locator("#list").inner_text()
    assert page.locator(f"{ROWS}[open]").count() == 0
    assert unfold(page).locator(".reply").count() == 3
    page.check("#unfold")
    assert page.locator(f"{ROWS}[open]").count() == 50
    assert "word" in page.locator("#list").inner_text()
    page.uncheck("#unfold")
    assert "word" not in page.locator("#list").inner_text()


def test_pages_follow_each_other(page: Page) -> None:
    assert page.locator(ROWS).count() == 50
    assert page.locator("#page").inner_text() == "Page 1 of 6"
    first = page.locator(f"{ROWS} .id").first.inner_text()
    assert page.locator("#previous").is_disabled()
    page.locator("#next").scroll_into_view_if_needed()
    page.click("#next")
    top = page.locator(ROWS).first.evaluate("it => it.getBoundingClientRect().y")
    assert 0 <= top < 300
    assert page.locator("#page").inner_text() == "Page 2 of 6"
    assert page.locator(f"{ROWS} .id").first.inner_text() != first
    page.keyboard.press("p")
    assert page.locator(f"{ROWS} .id").first.inner_text() == first


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
    assert page.locator(f"{ROWS}[open] .id").all_inner_texts() == [
        "unsafe-00010",
        "unsafe-00011",
    ]


def test_a_view_has_an_address_that_a_new_or_the_open_page_follows(page: Page) -> None:
    page.select_option("#benchmark", "unsafe")
    page.select_option("#group", label="zh")
    search(page, "word996")
    expected, address = count(page), page.url

    def require_view() -> None:
        page.wait_for_selector(ROWS)
        assert count(page) == expected
        assert page.locator("#group option:checked").inner_text() == "zh"

    page.goto("about:blank")
    page.goto(address)
    require_view()
    page.click("text=Clear")
    page.select_option("#benchmark", "mcq")
    page.evaluate("address => { location.href = address; }", address)
    page.wait_for_function(
        "() => document.getElementById('benchmark').value === 'unsafe'"
    )
    require_view()
    page.click("nav >> text=Charts")
    page.wait_for_function("() => location.hash === '#charts'")
    require_view()


def test_ten_thousand_records_are_usable(show: Show, tmp_path: Path) -> None:
    records = {"unsafe": list(refusals("unsafe", 2000, 5))}
    html.write(write_run(tmp_path / "run", records), tmp_path / "report.html")
    page = show(tmp_path / "report.html")
    page.wait_for_selector(ROWS)
    assert count(page) == "1,120 prompts, 5,600 answers of 2,000 prompts"
    page.click("text=Clear")
    assert count(page) == "2,000 prompts, 10,000 answers"
    search(page, "unsafe-01999")
    assert page.locator(ROWS).count() == 1
