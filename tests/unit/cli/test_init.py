"""``refusal-checks init``: what it writes can be used, and what is there stays."""

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from refusal_checks.core.errors import UserError
from tests.unit.cli.test_baseline import call


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(*words: str) -> str:
    found = call("init", *words)
    assert found.exit_code == 0, found.output
    return found.output


def files(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()
    }


COMMON = {".gitignore", "thresholds/default.toml", "gates/refusal_gates.py"}
SCRIPT, GITHUB = "ci/refusal-gate.sh", ".github/workflows/refusal-gate.yml"


@pytest.mark.parametrize(
    ("found", "words", "expected"),
    [
        ("", ("--ci=none",), COMMON),
        ("", (), COMMON | {SCRIPT, GITHUB}),
        (".gitlab-ci.yml", (), COMMON | {SCRIPT, "ci/refusal-gate.gitlab-ci.yml"}),
        ("Jenkinsfile", (), COMMON | {SCRIPT, "ci/refusal-gate.Jenkinsfile"}),
        ("Jenkinsfile", ("--ci", "github"), COMMON | {SCRIPT, GITHUB}),
    ],
)
def test_the_files_fit_the_repository(
    folder: Path, found: str, words: tuple[str, ...], expected: set[str]
) -> None:
    if found:
        (folder / found).write_text("theirs")
    output = init(*words)
    assert files(folder) - {found} == expected
    assert all(f"written  {name}" in output for name in expected)
    assert "refusal-checks gate MODEL --judge JUDGE" in output


def test_nothing_is_overwritten(folder: Path) -> None:
    (folder / "thresholds").mkdir()
    mine = folder / "thresholds" / "default.toml"
    mine.write_text("[smoke_safe]\n")
    assert "kept     thresholds/default.toml" in init()
    assert mine.read_text() == "[smoke_safe]\n"
    assert init().count("kept ") == 5


def test_reports_with_texts_are_ignored_by_git(folder: Path) -> None:
    (folder / ".gitignore").write_text("gate.log\nbuild")
    for said in ("written  .gitignore", "kept     .gitignore"):
        assert said in init()
        lines = (folder / ".gitignore").read_text().splitlines()
        assert lines == ["gate.log", "build", "report.html"]


def test_pipelines_have_few_rights_and_run_no_input_as_code(folder: Path) -> None:
    for ci in ("github", "gitlab"):
        init("--ci", ci)
    yaml = YAML(typ="safe")
    github: dict[str, Any] = yaml.load(folder / ".github/workflows/refusal-gate.yml")
    assert github["permissions"] == {}
    rights = {name: job["permissions"] for name, job in github["jobs"].items()}
    assert rights == {
        "gate": {"contents": "read"},
        "comment": {"pull-requests": "write"},
    }
    gitlab: dict[str, Any] = yaml.load(folder / "ci/refusal-gate.gitlab-ci.yml")
    assert gitlab["refusal-gate"]["artifacts"]["reports"] == {"junit": "report.xml"}
    steps = github["jobs"]["gate"]["steps"]
    assert not any("inputs." in step.get("run", "") for step in steps)


def test_a_file_where_a_folder_belongs_is_named_with_the_remedy(folder: Path) -> None:
    (folder / "thresholds").write_text("theirs")
    with pytest.raises(
        UserError, match=r"make .*/thresholds a folder that you can writ"
    ):
        call("init")
