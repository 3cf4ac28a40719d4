"""What an earlier release left is read: its baseline, and a finished run's folder.

``tests/data/before_house`` was written by the commit before every module moved: one run of
``gates.toml`` (``--samples 2 --limit 4``), accepted as a baseline.
"""

import json
import re
from pathlib import Path

from typer.testing import CliRunner

from refusal_checks.cli import application
from tests.plugin.conftest import ROOT, Project

OLD = ROOT / "tests" / "data" / "before_house"


def command(*words: str | Path) -> str:
    """The output of ``refusal-checks``."""
    arguments = [str(word) for word in words]
    return CliRunner().invoke(application(), arguments, catch_exceptions=False).output


def test_an_old_run_is_shown_reported_and_accepted_again(project: Project) -> None:
    shown = command("runs", "show", OLD / "run")
    assert re.search(r"smoke_unsafe-rejection_rate +75\.0% \[30\.1, 95\.4\]", shown)
    command("report", "html", "report.html", OLD / "run")
    assert "smoke-unsafe-007" in Path("report.html").read_text()
    command("runs", "export", OLD / "run", "answers.jsonl")
    assert Path("answers.jsonl").read_text().count("\n") == 24
    command("baseline", "accept", OLD / "run", "again")
    for path in (OLD / "baseline").iterdir():
        assert json.loads(Path("again", path.name).read_text()) == json.loads(path.read_text())
