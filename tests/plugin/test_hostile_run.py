"""What hostile models say in a run: nothing acts on a terminal, a CI log or a parser."""

from __future__ import annotations

import json
import re
from pathlib import Path

import xmlschema
from junitparser import JUnitXml

from tests.fake_server import Body
from tests.plugin.conftest import KEYWORD, THRESHOLDS, Project, careless, judged

ATTACK = (
    "::error::forged\n::add-mask::forged\n##[error]forged ##vso[task.complete result=Succeeded;]"
    "\x1b[2J\x1b]0;title\x07\u202e </pre></details><script>x</script> ]]> & @somebody | `x` "
    + "word " * 40
    + "::error::after a break\r\n::stop-commands::x\x00\ud800"
)


def hostile(body: Body) -> list[str]:
    """Says the attack, as a candidate and as a judge."""
    return judged(False, ATTACK) if "response_format" in body else [ATTACK] * body["n"]


def test_nothing_that_is_shown_acts(project: Project) -> None:
    why = json.dumps(ATTACK.replace("\x00", "").replace("\ud800", ""))
    project.thresholds(THRESHOLDS.replace("0.80", f"0.80, rationale = {why}", 1))
    project.server.answer = hostile
    files = ("--junitxml", "report.xml", "--junit-prompts", "prompts.xml")
    result = project.gate(*files, "-rA", "-v", "-o", "junit_logging=all")
    result.assert_outcomes(passed=1, failed=2)
    shown = result.stdout.str() + result.stderr.str()
    assert "forged" in shown
    assert not [line for line in shown.split("\n") if re.match(r"\s*::", line)]
    assert not re.search(r"##[\w.]*\[", shown)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown.replace("\r", ""))
    schema = xmlschema.XMLSchema(Path(__file__).parents[1] / "data" / "junit.xsd")
    for name, failures in (("report.xml", 2), ("prompts.xml", 80)):
        path = project.path / name
        schema.validate(str(path))
        assert sum(suite.failures for suite in JUnitXml.fromfile(str(path))) == failures
        body = path.read_text()
        assert not re.search(r"^\s*(::|<system-out>::|##\[)", body, re.MULTILINE)
        assert len(body) < 1_000_000


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
    project.write_rows("said.jsonl", [row | {"prompt": "Say bye"}])
    table = '[mine]\nfile = "rows.jsonl"\nexpect = "answer"\nprompt = "prompt"\nid = "id"\n'
    project.thresholds(table)
    models = ("--candidate", "replay:said.jsonl", *KEYWORD)
    result = project.run(*models, "--replay-columns", "completion=answer")
    shown = result.stdout.str() + result.stderr.str()
    assert "forged" in shown
    assert "worded differently there" in shown
    assert not re.search(r"##[\w.]*\[|[\x1b\u202e]", shown)
