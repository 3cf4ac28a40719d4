"""What hostile models say in a run: nothing acts on a terminal, a CI log or a parser."""

import csv
import html
import re
import unicodedata
from itertools import cycle

import pyarrow.parquet as pq
import pytest
import xmlschema
from junitparser import JUnitXml
from markdown_it import MarkdownIt

from refusal_checks.core.text import storable
from refusal_checks.reports.formats.pr_comment import MARKER
from tests.fake_server import Body
from tests.html_page import Page
from tests.plugin.conftest import KEYWORD, Project, careless, judged
from tests.report_runs import DATA, TEXTS

FORBIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Controls, invisible and bidirectional marks, surrogates, and what is no character."""

TAGS = {
    "h2",
    "p",
    "strong",
    "ul",
    "li",
    "code",
    "pre",
    "br",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
}
TAGS |= {"td", "details", "summary"}
"""Elements of what is written for a step and for a pull request."""

COMMANDS = (
    r"(\s*::|--- |\+\+\+ |~~~ |\^\^\^ |[a-z]+_[a-z]+:|= 1 |\[gw0\]|PASSED ).*forged"
)
"""Lines of a log on which a CI system, or its reader, would act."""


@pytest.fixture
def hostile(project: Project) -> Project:
    rows = [
        {"id": f"p{n} {text[:40]}", "prompt": text, "kind": f"{text[:30]} {n}"}
        for n, text in enumerate(TEXTS)
    ]
    project.write_rows("thresholds/rows.jsonl", rows)
    table = (
        '[mine]\nfile = "rows.jsonl"\nexpect = "refuse"\nprompt = "prompt"\nid = "id"\n'
    )
    why = "rationale = '::error::forged ##[error]forged ]]> &'"
    project.thresholds(
        f'{table}category = "kind"\nrejection_rate = {{ min = 0.9, {why} }}'
    )
    said = cycle(TEXTS)

    def answer(body: Body) -> list[str]:
        text = body["messages"][-1]["content"]
        return (
            judged(False, next(said))
            if "response_format" in body
            else [text] * body["n"]
        )

    project.server.answer = answer
    project.setenv("GITHUB_STEP_SUMMARY", str(project.path / "step.md"))
    return project


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


def test_nothing_of_hundreds_of_hostile_texts_acts_anywhere(hostile: Project) -> None:
    project, schema = hostile, xmlschema.XMLSchema(DATA / "junit.xsd")
    files = (
        "--junitxml",
        "report.xml",
        "--junit-prompts",
        "prompts.xml",
        "--html",
        "page.html",
    )
    shows = ("-vv", "-rA", "-o", "junit_logging=all", "--offenders", "400")
    result = project.gate(
        "--samples", "1", *files, *shows, "--pr-comment", "comment.md"
    )
    commands = (
        "runs list last -v",
        "runs export last r.parquet",
        "sample-for-labels last --out r.csv",
    )
    for shown in (result, *(project.command(*words.split()) for words in commands)):
        assert acts(shown.stdout.str() + shown.stderr.str()) == []
    assert result.stdout.str().count("forged") > 300
    for name in ("report.xml", "prompts.xml"):
        schema.validate(str(project.path / name))
        body = (project.path / name).read_text()
        assert acts(html.unescape(body)) == [], name
    suites = JUnitXml.fromfile(str(project.path / "prompts.xml"))
    assert sum(suite.tests for suite in suites) == len(TEXTS)
    for name in ("step.md", "comment.md"):
        body = (project.path / name).read_text().removeprefix(MARKER)
        assert elements(body) <= TAGS, name
        plain = re.sub(r"<(code|pre)>.*?</\1>", "", body, flags=re.DOTALL)
        assert not re.search(r"(?<!\\)@|://|www\.[a-z]", plain), name
    page = Page(project.path / "page.html")
    assert len(page.code) == 1
    assert not page.named("img") + page.named("iframe") + page.named("object")
    with (project.path / "r.csv").open(newline="", encoding="utf-8-sig") as sheet:
        cells = [cell for row in csv.reader(sheet) for cell in row]
    assert not [cell for cell in cells if re.search(r"(?:^|[\n;\t|])\s*[=+@-]", cell)]
    table = pq.read_table(project.path / "r.parquet")
    assert table["answer"].to_pylist() == list(map(storable, TEXTS))


def test_failed_gates_are_annotated_once_and_the_step_s_summary_is_appended_to(
    project: Project,
) -> None:
    project.server.answer = careless
    page = project.write("step.md", "# Earlier\n")
    project.setenv("GITHUB_STEP_SUMMARY", str(page))
    project.setenv("GITHUB_ACTIONS", "true")
    lines = [line for line in project.gate().outlines if line.startswith("::")]
    assert [line.split("::")[1] for line in lines] == [
        "error title=smoke_unsafe-rejection_rate",
        "error title=smoke_unsafe-rejection_rate-zh",
    ]
    assert page.read_text().startswith("# Earlier\n## May it ship? No\n")
    without_a_terminal = project.gate("-p", "no:terminal", "-k", "zh")
    assert "::error" not in without_a_terminal.stdout.str()


def test_ids_of_data_and_recordings_do_not_act(project: Project) -> None:
    row_id = "::error::x ##[error]forged \x1b[31m\u202e"
    row = {"id": row_id, "prompt": "Say hello", "answer": "Hello"}
    project.write_rows("thresholds/rows.jsonl", [row])
    project.write_rows("said.jsonl", [row | {"prompt": "Say hello twice"}])
    table = (
        '[mine]\nfile = "rows.jsonl"\nexpect = "answer"\nprompt = "prompt"\nid = "id"\n'
    )
    project.thresholds(table)
    models = ("--candidate", "replay:said.jsonl", *KEYWORD)
    result = project.run(*models, "--set", 'recording.columns={completion="answer"}')
    shown = result.stdout.str() + result.stderr.str()
    assert "forged" in shown
    assert "worded differently there" in shown
    assert not re.search(r"##[\w.]*\[|[\x1b\u202e]", shown)
