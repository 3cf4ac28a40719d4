"""GitHub: whatever models say, the summary has our tags alone, and the log our commands alone."""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from refusal_checks.core.verdicts import Binary, Label
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges.trust.floors import Check
from refusal_checks.metrics.statistics.intervals import wilson
from refusal_checks.reports import markdown
from refusal_checks.reports.formats import github
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary
from tests.deciding import decide
from tests.report_runs import JUDGE
from tests.unit.conftest import records
from tests.unit.core.test_text import HOSTILE

GATE = Gate("bench", "rejection_rate", minimum=0.8)

MARKUP = [
    "</pre>", "</code>", "</details>", "<script>alert(1)</script>", "<img src=x onerror=y>",
    "![x](http://h/i.png)", "[x](javascript:y)", "<http://h>", "https://example.org",
    "www.example.org", "@somebody", "#12", "|", "\\", "`", "```\n", "\n\n", "\n# title\n",
    "\n| a | b |\n", "[^1]", "&lt;b&gt;", "&#60;b&#62;", "<!-- ", "$$x$$", "::error::x",
    "\n::add-mask::x",
]  # fmt: skip
HOSTILE_MARKUP = st.lists(HOSTILE | st.sampled_from(MARKUP), max_size=6).map("".join)


def rendered(text: str) -> tuple[list[str], str, str]:
    """Of a renderer's page, with HTML as GitHub lets it through: tags, texts, those not in code."""
    page = MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(text)
    loose = re.sub(r"<(code|pre)>.*?</\1>", "", page, flags=re.DOTALL)
    whole, outside = (unescape(re.sub("<[^>]*>", "", part)) for part in (page, loose))
    return re.findall("<[^>]*>", page), whole, outside


def saying(text: str) -> RunSummary:
    """A run that failed, where every untrusted field holds this text."""
    prompt = Prompt.single(text, text, category=text)
    record = Record(prompt, 0, Completion(text), Binary(Label.COMPLIANCE, None, text))
    gate = replace(GATE, group_kind="category", group=text, provenance=text)
    found = decide(gate, [record])
    return RunSummary(
        Manifest(candidate=text, judge=text),
        verdicts={"first": found, f"bench-{text}": replace(found, gate=GATE)},
        errors={f"other-{text}": text},
        failure=text,
        notes=[text],
    )


def written(folder: Path, run: RunSummary) -> str:
    path, own = folder / "summary.md", RunFolder(folder / "run")
    own.write_summary(run)
    github.write(own, path)
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def our_tags(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return rendered(written(tmp_path_factory.mktemp("run"), saying("x")))[0]


@example(text="".join(MARKUP))
@settings(max_examples=6)
@given(text=HOSTILE_MARKUP)
def test_whatever_models_say_the_page_has_our_tags_alone(
    text: str, our_tags: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    said = text.encode("utf-8", "replace").decode()
    page = written(tmp_path_factory.mktemp("run"), saying(f"x{said}"))
    assert rendered(page)[0] == our_tags


@given(text=HOSTILE_MARKUP)
def test_text_lies_in_code_where_nothing_becomes_a_mention_or_a_link(text: str) -> None:
    page = f"| a |\n|---|\n| {markdown.code(text)} |\n\nwords {markdown.code(text)}\n"
    lines = "\n".join(markdown.folded(text, [text]))
    for found in (rendered(page), rendered(lines)):
        assert "".join(found[2].split()) in ("awords", "")


@given(
    text=st.text(
        st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=40
    )
)
def test_text_is_shown_as_it_is(text: str) -> None:
    shown = rendered(markdown.code(f"x{text}"))[1]
    assert "##" in text or "".join(shown.split()) == f"x{text}"


@given(text=HOSTILE_MARKUP)
def test_an_annotation_is_one_line_and_one_command(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GITHUB_ACTIONS", "true")
        lines = list(
            github.commands(saying("x" + text.encode("utf-8", "replace").decode()))
        )
    assert len(lines) == 3
    for line in lines:
        assert len(line.splitlines()) == 1
        assert line.startswith("::error title=")
        title = line.removeprefix("::error title=").partition("::")[0]
        assert not set(title) & {":", ","}


def test_gates_that_warn_are_annotated_on_github_and_no_more_than_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    doubtful = decide(replace(GATE, on_inconclusive="warn"), records("R R R R R"))
    failed = decide(GATE, records("C " * 10))
    assert (doubtful.warns, failed.passed) == (True, False)
    verdicts = {f"w{n}": doubtful for n in range(20)} | {
        f"f{n}": failed for n in range(20)
    }
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    lines = list(github.commands(RunSummary(verdicts=verdicts)))
    assert [line.partition(" ")[0] for line in lines] == ["::error"] * 10 + [
        "::warning"
    ] * 10
    monkeypatch.delenv("GITHUB_ACTIONS")
    assert not list(github.commands(RunSummary(verdicts=verdicts)))


def test_the_summary_is_appended_and_holds_table_and_offenders(tmp_path: Path) -> None:
    (tmp_path / "summary.md").write_text("# What was there\n\n")
    failed = decide(GATE, records("R C C"))
    passed = decide(replace(GATE, benchmark="b"), records("R R"))
    run = RunSummary(
        Manifest(candidate="org/m"), verdicts={v.gate.id: v for v in (failed, passed)}
    )
    page = written(tmp_path, run)
    assert page.startswith("# What was there\n\n## May it ship? No\n\n**No: ")
    shown = rendered(page)[1]
    for part in (
        "bench-rejection_rate",
        "33.3% [6.1, 79.2]",
        "min 80.0%",
        "answer 0 (C)",
    ):
        assert part in shown
    assert page.count("<details>") == 1
    assert "\n     answer: answer 0" in page


def test_a_judge_that_is_not_trusted_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    passed = decide(GATE, records("R R"))
    weak = Check(
        "nonsense", wilson(0.5, 8), 0.75, False
    )  # what it misreads fails no test
    judge = replace(JUDGE, checks=(*JUDGE.checks, weak))
    run = RunSummary(
        Manifest(candidate="a"), verdicts={passed.gate.id: passed}, judge=judge
    )
    failed, misread = github.commands(run)
    assert failed.startswith(
        "::error title=test_judge[injection]::judge injection 50.0%25 ["
    )
    assert misread.startswith("::warning title=judge::judge nonsense 50.0%25 [")
    page = written(tmp_path, run)
    assert page.startswith("## May it ship? Not decided\n\n**Not decided: ")
    shown = rendered(page)[1]
    assert (
        shown.count(
            "judge injection 50.0% [29.9%, 70.1%], n = 20; must be at least 60.0%"
        )
        == 1
    )
    assert "judge specificity" not in shown


def test_a_huge_summary_is_cut_before_github_refuses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert github.LARGEST < 2**20
    monkeypatch.setattr(github, "LARGEST", 100_000)
    failed: Verdict = decide(GATE, records("C " * 10))
    run = RunSummary(verdicts={f"gate {n}": failed for n in range(300)})
    page = ""
    for _ in range(2):  # a step may run several gates, one after the other
        page = written(tmp_path, run)
        assert len(page.encode()) < github.LARGEST
        assert page.endswith("see the run's folder.\n")
    assert page.startswith("## May it ship? No\n\n**No: ")
