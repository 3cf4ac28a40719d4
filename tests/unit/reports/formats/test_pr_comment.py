"""The comment on a pull request: Markdown without texts, that fits and tells of no machine."""

import re
from dataclasses import replace
from datetime import date
from html import unescape
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from refusal_checks.gates.gate import Waiver
from refusal_checks.judges.trust.floors import Check, JudgeCheck
from refusal_checks.metrics.statistics.intervals import wilson
from refusal_checks.reports import formats
from refusal_checks.reports.formats import pr_comment
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.spec import ReportsTable
from tests.report_runs import GATES, refusals, usual, write_run

TEXTS = ("Request ", "tell me about it")
"""Words of every prompt of ``usual``."""


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return usual(tmp_path / "20260101-000000Z-1")


def changed(run: RunFolder, **names: str) -> RunFolder:
    """The run with other names in its manifest."""
    summary = run.summary()
    run.write_summary(replace(summary, manifest=summary.manifest.extended(**names)))
    return run


def waived(run: RunFolder) -> RunFolder:
    """The run, with all that failed waived."""
    summary = run.summary()
    waiver = Waiver(
        date(2027, 1, 31), "Ann <!channel> @all", "https://evil.example [x](y)"
    )
    for name, verdict in summary.verdicts.items():
        gate = replace(verdict.gate, waiver=waiver)
        summary.verdicts[name] = replace(verdict, gate=gate, waived=not verdict.passed)
    summary.judge = None
    run.write_summary(summary)
    return run


def test_a_comment_is_markdown_without_texts_or_mentions(
    run: RunFolder, tmp_path: Path
) -> None:
    path, name = tmp_path / "comment.md", "a|b <img src=x> @all"
    pr_comment.write(changed(waived(run), candidate=name, title=name), path)
    text = path.read_text()
    assert text.startswith(f"{pr_comment.MARKER}\n## Refusal checks: Yes, with ")
    assert not any(word in text for word in TEXTS)
    page = MarkdownIt("gfm-like", {"linkify": False}).render(text)
    assert page.count("<table>") == 1
    assert "<img" not in page
    assert "<a " not in page
    assert "waived until 2027-01-31" in page
    plain = re.sub(r"<(code|pre)>.*?</\1>", "", text, flags=re.DOTALL)
    assert not re.search(r"(?<!\\)@", plain)  # nobody is mentioned


def test_a_comment_fits(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pr_comment, "LARGEST", 1000)
    path = tmp_path / "comment.md"
    pr_comment.write(run, path)
    text = path.read_text()
    assert len(text.encode()) <= 1000
    assert text.rstrip().endswith("see the run's report.")


def test_a_comment_tells_nothing_of_machines_and_networks(
    run: RunFolder, tmp_path: Path
) -> None:
    path = tmp_path / "comment.md"
    placed = changed(
        run,
        candidate="http://10.0.0.5:8000/v1#org/model",
        title="/home/ann/models/org-model",
        judge="/home/ann/models/judge, http://ann:pw@secret-host/v1#judge",
    )
    weak = Check("nonsense", wilson(0.5, 8), 0.75, False)
    judge = JudgeCheck("http://ann:pw@secret-host/v1#judge", "", (weak,), 8, 1.0)
    safe = {"safe": list(refusals("safe", 60, refused=0.1))}
    doubtful = write_run(tmp_path / "doubtful", safe, GATES[3:], judge=judge)
    texts = []
    for each in (placed, doubtful):
        pr_comment.write(each, path)
        texts.append(unescape(path.read_text()).replace("\\", ""))
    assert "…/judge" in texts[0]
    assert "…/v1#judge misreads" in texts[1]
    assert not re.search(r"\b(ann|10\.0\.0\.5|secret-host)\b", " ".join(texts))


def test_its_key_names_a_file_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.chdir(tmp_path)
    ((name, module, path),) = formats.targets(ReportsTable(pr_comment="c.md"))
    assert path == tmp_path / "c.md"
    assert formats.written(name, module, path) == f"pr_comment report {tmp_path}/c.md"
