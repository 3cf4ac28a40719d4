"""What hostile models say in a run: nothing acts on a terminal, a CI log or a parser."""

from __future__ import annotations

import csv
import html
import re
import unicodedata
from itertools import cycle
from pathlib import Path

import xmlschema
from markdown_it import MarkdownIt

from refusal_checks.core.text import replace_surrogates
from refusal_checks.reports.markdown import MARKER
from refusal_checks.wording import failures
from tests.support.fake_server import Body
from tests.support.html_page import Page
from tests.support.project import KEYWORD, Outcome, Project, is_judge, judged
from tests.support.report_runs import DATA, TEXTS

FORBIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Controls, invisible and bidirectional marks, surrogates, and what is no character."""

_NAMES = "h2 p strong ul li code pre br table thead tbody tr th td details summary"
TAGS = set(_NAMES.split())
"""Elements of what is written for a step and for a pull request."""

COMMANDS = (
    r"(\s*::|--- |\+\+\+ |~~~ |\^\^\^ |[a-z]+_[a-z]+:|= 1 |\[gw0\]|PASSED ).*forged"
)
"""Lines of a log on which a CI system, or its reader, would act."""


def acts(shown: str) -> list[str]:
    hidden = {
        char
        for char in shown
        if char != "\n" and unicodedata.category(char) in FORBIDDEN
    }
    lines = [line for line in shown.split("\n") if re.match(COMMANDS, line)]
    return [*map(ascii, hidden), *re.findall(r"##[\w.]*\[", shown), *lines]


def elements(text: str) -> set[str]:
    page = MarkdownIt("gfm-like", {"linkify": False}).render(text)
    return {tag.strip("/ ") for tag in re.findall(r"<([^>]*)>", page)}


def run_hostile(project: Project) -> Outcome:
    """Hostile texts as prompts, ids, categories, answers, reasons and a gate's rationale."""
    rows = [
        {"id": f"p{n} {text[:40]}", "prompt": text, "kind": f"{text[:30]} {n}"}
        for n, text in enumerate(TEXTS)
    ]
    project.write_rows("thresholds/rows.jsonl", rows)
    table = (
        '[mine]\nfile = "rows.jsonl"\nexpect = "refuse"\nprompt = "prompt"\nid = "id"\n'
    )
    why = "rationale = '::error::forged ##[error]forged ]]> &'"
    gate = f'category = "kind"\nrejection_rate = {{ min = 0.9, {why} }}'
    project.thresholds(table + gate)
    # Refusals can be drawn for labels; the others are shown as failing prompts.
    refuses, texts = cycle([True, False, False]), cycle(TEXTS)

    def answer(body: Body) -> list[str]:
        if is_judge(body):
            return judged(next(refuses), next(texts))
        return [body["messages"][-1]["content"]] * body["n"]

    project.server.answer = answer
    project.setenv("GITHUB_STEP_SUMMARY", "step.md")
    return project.evaluate(
        sampling_samples=1,
        reports_failing_prompts=700,
        reports_html="page.html",
        reports_markdown="comment.md",
    )


def test_nothing_of_hundreds_of_hostile_texts_acts_anywhere(project: Project) -> None:
    found = run_hostile(project)
    lines = [
        line
        for verdict in found.result.verdicts.values()
        for line in failures.message(verdict).splitlines()
    ]
    assert "\n".join(lines).count("forged") > 500
    lines += map(str, found.events)
    for command in (
        "runs list last -v",
        "sample-for-labels last --out r.csv",
    ):
        lines += project.call(*command.split())[1].splitlines()
    assert acts("\n".join(lines)) == []

    found.result.write_junit("gates.xml")
    xmlschema.XMLSchema(DATA / "junit.xsd").validate("gates.xml")
    assert acts(html.unescape(Path("gates.xml").read_text())) == []
    body = Path("comment.md").read_text()
    assert Path("step.md").read_text() == body
    body = body.removeprefix(MARKER)
    assert elements(body) <= TAGS
    plain = re.sub(r"<(code|pre)>.*?</\1>", "", body, flags=re.DOTALL)
    assert not re.search(r"(?<!\\)@|://|www\.[a-z]", plain)
    page = Page(Path("page.html"))
    assert len(page.code) == 1
    assert not page.named("img") + page.named("iframe") + page.named("object")
    with Path("r.csv").open(newline="", encoding="utf-8-sig") as sheet:
        cells = [cell for row in csv.reader(sheet) for cell in row]
    assert not [cell for cell in cells if re.search(r"(?:^|[\n;\t|])\s*[=+@-]", cell)]
    assert [*found.result.frame()["answer"]] == list(map(replace_surrogates, TEXTS))


def test_ids_of_data_and_recordings_do_not_act(project: Project) -> None:
    row_id = "::error::x ##[error]forged \x1b[31m\u202e"
    row = {"id": row_id, "prompt": "Say hello", "answer": "Hello"}
    project.write_rows("thresholds/rows.jsonl", [row])
    project.write_rows("said.jsonl", [row | {"prompt": "Greet me twice"}])
    project.thresholds(
        '[mine]\nfile = "rows.jsonl"\nexpect = "answer"\nprompt = "prompt"\nid = "id"\n'
    )
    found = project.evaluate(
        candidate_model="replay:said.jsonl",
        recording_columns={"completion": "answer"},
        **KEYWORD,
    )
    found.says("forged", "worded differently there")
    assert not re.search(r"##[\w.]*\[|[\x1b\u202e]", found.said)
