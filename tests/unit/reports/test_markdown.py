"""Markdown: without texts and places, and with our tags and commands alone, whatever models say."""

import re
from dataclasses import replace
from datetime import date
from html import unescape
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from refusal_checks.core.judgements import Binary, Label
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion, Record
from refusal_checks.gates.gate import Gate, Waiver
from refusal_checks.metrics.statistics.intervals import wilson
from refusal_checks.reports import markdown
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary
from refusal_checks.trust.minimums import Check, JudgeCheck
from tests.support.deciding import decide, summary_of
from tests.support.report_runs import (
    GATES,
    JUDGE,
    PLACE,
    PLACES,
    WORDS,
    hostile,
    refusals,
    with_other_facts,
    write_run,
)
from tests.unit.conftest import records
from tests.unit.core.test_text import HOSTILE

GATE = Gate("bench", "rejection_rate", min=0.8)

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
    markdown.append(own, path)
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
    lines = "\n".join(markdown.fold(text, [text]))
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
            markdown.workflow_commands(
                saying("x" + text.encode("utf-8", "replace").decode())
            )
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
    verdicts = {f"w{n}": doubtful for n in range(20)} | {
        f"f{n}": failed for n in range(20)
    }
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    lines = list(markdown.workflow_commands(RunSummary(verdicts=verdicts)))
    assert [line.partition(" ")[0] for line in lines] == ["::error"] * 10 + [
        "::warning"
    ] * 10
    monkeypatch.delenv("GITHUB_ACTIONS")
    assert not list(markdown.workflow_commands(RunSummary(verdicts=verdicts)))


def test_a_summary_is_appended_and_holds_table_and_reasons(tmp_path: Path) -> None:
    (tmp_path / "summary.md").write_text("# What was there\n\n")
    failed = decide(GATE, records("R C C"))
    passed = decide(replace(GATE, benchmark="b"), records("R R"))
    page = written(tmp_path, summary_of(failed, passed, errors={"c-rate": "it broke"}))
    head = f"# What was there\n\n{markdown.MARKER}\n## May it ship? No\n"
    assert page.startswith(head)
    shown = rendered(page)[1]
    for part in ("bench-rejection_rate", "33.3% [6.1, 79.2]", "min 80%", "no verdict"):
        assert part in shown
    assert page.count("<details>") == 1
    assert "answer 0" not in page


def test_a_judge_that_is_not_trusted_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    run = summary_of(decide(GATE, records("R R")), judge=JUDGE)
    (failed,) = markdown.workflow_commands(run)
    assert failed.startswith(
        "::error title=test_judge[injection]::judge injection 50.0%25 ["
    )
    page = written(tmp_path, run)
    assert "## May it ship? Not decided\n" in page
    assert rendered(page)[1].count("the judge failed its check") == 1


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    found = {"unsafe": list(refusals("unsafe", 12)), "safe": list(refusals("safe", 12))}
    return write_run(tmp_path / "20260101-000000Z-1", {**found, "hostile": hostile()})


def waived(run: RunFolder) -> RunFolder:
    """The run, with all that failed waived."""
    summary = run.summary()
    by, reason = "Ann <!channel> @all", "https://evil.example [x](y)"
    waiver = Waiver(until=date(2027, 1, 31), by=by, reason=reason)
    for name, verdict in summary.verdicts.items():
        gate = replace(verdict.gate, waiver=waiver)
        summary.verdicts[name] = replace(verdict, gate=gate, waived=not verdict.passed)
    summary.judge = None
    run.write_summary(summary)
    return run


def test_it_has_no_texts_or_mentions(run: RunFolder, tmp_path: Path) -> None:
    path, name = tmp_path / "comment.md", "a|b <img src=x> @all"
    markdown.write(with_other_facts(waived(run), candidate=name, title=name), path)
    text = path.read_text()
    assert text.startswith(f"{markdown.MARKER}\n## May it ship? Yes, with ")
    assert not any(word in text for word in WORDS)
    page = MarkdownIt("gfm-like", {"linkify": False}).render(text)
    assert page.count("<table>") == 1
    assert "<img" not in page
    assert "<a " not in page
    assert "waived until 2027-01-31" in page
    plain = re.sub(r"<(code|pre)>.*?</\1>", "", text, flags=re.DOTALL)
    assert not re.search(r"(?<!\\)@", plain)  # nobody is mentioned


def test_it_fits(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "comment.md"
    for largest in range(900, 1300, 25):
        monkeypatch.setattr(markdown, "LARGEST", largest)
        markdown.write(run, path)
        text = path.read_text()
        assert len(text.encode()) <= largest
        assert text.rstrip().endswith("see the run's page.")


def test_it_tells_nothing_of_machines_and_networks(
    run: RunFolder, tmp_path: Path
) -> None:
    path = tmp_path / "comment.md"
    placed = with_other_facts(run, **PLACES)
    low = Check("specificity", wilson(0.5, 8), 0.4, True)
    judge = JudgeCheck("http://ann:pw@secret-host/v1#judge", "", (low,), 8, 1.0)
    safe = {"safe": list(refusals("safe", 60, refused=0.1))}
    doubtful = write_run(tmp_path / "doubtful", safe, GATES[3:], judge=judge)
    texts = []
    for each in (placed, doubtful):
        markdown.write(each, path)
        texts.append(unescape(path.read_text()).replace("\\", ""))
    assert "…/judge" in texts[0]
    assert "…/v1#judge passed lowered minimums" in texts[1]
    assert not PLACE.search(" ".join(texts))
