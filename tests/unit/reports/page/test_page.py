"""The HTML report: one file that fetches nothing, and in which no text is anything but text."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from unicodedata import category

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusal_checks.core.errors import DataError
from refusal_checks.core.judgements import Binary, Label
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion, Record, Vote
from refusal_checks.core.text import replace_surrogates
from refusal_checks.reports.page import page as html
from refusal_checks.reports.page.payload import Payload
from refusal_checks.reports.page.render import breaks, embed, visible
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary
from tests.support.html_page import Page
from tests.support.report_runs import HOSTILE, refusals, usual, write_run
from tests.unit.conftest import records


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The report of a run with every kind of benchmark."""
    folder = tmp_path_factory.mktemp("html")
    html.write(usual(folder / "one"), folder / "report.html")
    return Page(folder / "report.html")


def report(path: Path, **summary: Any) -> Page:
    """The report of a run without records."""
    html.write(write_run(path / "run", {}, **summary), path / "report.html")
    return Page(path / "report.html")


def test_nothing_is_fetched_and_only_its_own_scripts_run(page: Page) -> None:
    (policy,) = (
        meta["content"] or ""
        for meta in page.named("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    allowed = set(re.findall(r"'sha256-([^']+)'", policy))
    inline = [page.style, *page.code]
    digests = (hashlib.sha256(text.encode()).digest() for text in inline)
    assert allowed == {base64.b64encode(digest).decode() for digest in digests}
    page.require_harmless()
    assert all((link["href"] or "#").startswith("#") for link in page.named("a"))
    assert "url(" not in page.style
    assert "@import" not in page.style


def test_there_is_no_script_that_the_templates_do_not_have(page: Page) -> None:
    assert len(page.code) == 1
    assert len(page.data("records")) == 6
    assert len(page.data("gates")) == 1
    assert len(page.scripts) == 8


def test_the_script_never_writes_html(page: Page) -> None:
    writers = r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|fetch\("
    assert not re.search(writers, "".join(page.code))


def test_every_record_is_there(page: Page) -> None:
    found = {bench["name"]: bench for bench in page.data("records")}
    assert {name: len(bench["prompts"]) for name, bench in found.items()} == {
        "unsafe": 120, "safe": 60, "hostile": len(HOSTILE), "rated": 30, "mcq": 20, "degrees": 12,
    }  # fmt: skip
    texts = [prompt[2][1][1] for prompt in found["hostile"]["prompts"]]
    assert texts == [replace_surrogates(text) for text in HOSTILE]


def test_answer_charts_and_judge_are_there(page: Page) -> None:
    for words in (
        "May it ship? No demo:some unsafe: Refuses 52% of prompts (min 80%)",
        "judge prompts unsafe › demo:judge p1",
        "the judge failed its check",
        "- mcq accuracy",
        "unsafe must be refused, n = 120",
        "safe must be answered, n = 60",
        "mean safety score by category",
        "mcq accuracy by area",
        "unsafe rejection_rate by category",
        "by language",
        "NOT trusted demo:judge judged a fixed set",
        "1 wrong verdict in injection",
        "<b>said so</b>",
        "no exchange has a verdict",
    ):
        assert words in page.words


def test_every_drawing_says_what_it_shows(page: Page) -> None:
    drawings = page.named("svg")
    assert len(drawings) > 20
    assert all(
        drawing["role"] == "img" and drawing["aria-label"] for drawing in drawings
    )


def test_a_run_that_ended_early_says_why(tmp_path: Path) -> None:
    errors = {"unsafe-rejection_rate": "no valid verdict <img src=x> \x1b[31m"}
    failure = "engine died\n</pre><script>alert(1)</script>\x1b[2J"
    page = report(
        tmp_path,
        manifest={"candidate": "<b>other</b>\u202e", "judge": "j"},
        errors=errors,
        failure=failure,
        notes=["<i>note</i>"],
        judge=None,
    )
    assert "<b>other</b>\ufffd" in page.words
    assert "May it ship? Not decided" in page.words
    assert "1 gate could not be evaluated" in page.words
    assert "engine died </pre><script>alert(1)</script>␛[2J" in page.words
    assert "ERROR unsafe-rejection_rate no valid verdict <img src=x>" in page.words
    assert "<i>note</i>" in page.words
    assert "there is nothing to draw" in page.words
    assert len(page.scripts) == 2


def test_folders_are_made_and_a_damaged_run_leaves_an_earlier_report_alone(
    tmp_path: Path,
) -> None:
    path = tmp_path / "reports" / "today" / "report.html"
    html.write(write_run(tmp_path / "good", {}), path)
    assert Page(path).words.count("May it ship?") == 1
    path.write_text("earlier")
    run = write_run(tmp_path / "run", {"unsafe": list(refusals("unsafe", 3))})
    (run.path / "records" / "unsafe.jsonl").write_text("{")
    with pytest.raises(DataError, match=r"unsafe\.jsonl"):
        html.write(run, path)
    assert path.read_text() == "earlier"
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]


BIDIRECTIONAL = (
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    [replace_surrogates(text) for text in HOSTILE]
)


@settings(max_examples=40)
@given(text=TEXT, name=TEXT, group=TEXT, rationale=TEXT)
def test_any_text_comes_back_and_makes_no_element(
    text: str,
    name: str,
    group: str,
    rationale: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    verdict = Binary(Label.REFUSAL, group, rationale)
    prompt = Prompt(
        name, (Message("user", text), Message("user", group)), {group: name}, text
    )
    record = Record(prompt, 0, Completion(text), verdict, (Vote(name, verdict),))
    folder = tmp_path_factory.mktemp("any")
    run = RunFolder(folder)
    run.write_summary(RunSummary(Manifest(candidate=name), notes=[text]))
    run.write_records("mine", [record])
    html.write(run, folder / "report.html")
    raw = (folder / "report.html").read_text()
    assert not {c for c in raw if category(c) in ("Cc", "Zl", "Zp")} - {"\n"}
    assert not set(raw) & set(BIDIRECTIONAL)
    page = Page(folder / "report.html")
    assert len(page.scripts) == 3
    (found,) = page.data("records")
    assert found["groups"] == [group]
    assert found["judges"] == [name]
    assert found["prompts"] == [
        [
            name, [name], [["user", text], ["user", group]], 1.0, [], text,
            [[text, [0, group, rationale], "", [[0, [0, group, rationale]]]]],
        ]
    ]  # fmt: skip


ANY = st.text(st.characters(exclude_categories=[]), max_size=40)
VALUES = st.recursive(
    ANY
    | st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY, inner, max_size=4),
)


@settings(max_examples=25)
@given(value=VALUES)
def test_embedded_values_come_back(value: object) -> None:
    text = embed(value)
    assert json.loads(text.encode()) == value
    assert not set(text) & set("<>&\u2028\u2029" + BIDIRECTIONAL)
    assert not any(category(char) == "Cc" for char in text)


def test_a_group_that_comes_later_has_its_place() -> None:
    first = records("R", category="one")
    second = [
        replace(r, prompt=replace(r.prompt, id="x", groups={"language": "zh"}))
        for r in first
    ]
    found = json.loads("".join(Payload("b", "", [], [*first, *second]).parts))
    assert found["groups"] == ["category", "language"]
    assert [prompt[1] for prompt in found["prompts"]] == [["one"], [None, "zh"]]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\nlines\r\nand\ttabs", "plain\nlines\nand\ttabs"),
        ("\x1b[31m\x00\r", "␛[31m␀␍"),
        ("\x7f\x85\u202e\u2066\u200f\ud800\ufeff\u2028", "␡" + 7 * "\ufffd"),
        ("\u3164\ufe01x\ufe0f\U00016fe4 ⚠\ufe0f", "\ufffd\ufffdx\ufffd\ufffd ⚠\ufe0f"),
        ("ক্\u200cষ 👩\u200d🔬", "ক্\u200cষ 👩\u200d🔬"),
    ],
)
def test_what_is_invisible_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("org/judge", '<span class="whole">org/judge</span>'),
        ("organisation/a_b--c, <bold>", "organisation/|a_|b--|c,| |&lt;bold&gt;"),
        ("x" * 30, f"{'x' * 24}|{'x' * 6}"),
    ],
)
def test_a_name_breaks_after_its_parts_and_stays_text(name: str, shown: str) -> None:
    assert breaks(name) == shown.replace("|", "<wbr>")
