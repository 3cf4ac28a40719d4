"""Which run a command is told, what stands where a run should, and JSON for scripts."""

import json
from pathlib import Path

import pytest

from refusal_checks import __version__
from refusal_checks.core.errors import UserError
from refusal_checks.core.prompts import Kind
from refusal_checks.results import run_folder
from tests.support.deciding import of_kind
from tests.support.report_runs import refusals, seal, write_run
from tests.unit.cli.test_baseline import call

OLD, NEW = "20260101-120000Z-1", "20260102-120000Z-2"


HARMFUL = of_kind(Kind.SAFETY, refusals("unsafe", 4))


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder, the working one, with two runs."""
    monkeypatch.chdir(tmp_path)
    root = tmp_path / run_folder.ROOT
    for name in (OLD, NEW):
        write_run(root / name, {"unsafe": HARMFUL})
    return root


def test_the_version_is_shown() -> None:
    assert call("--version").output == f"refusal-checks {__version__}\n"


SUMMARY = f"{run_folder.ROOT}/{OLD}/summary.json"


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (f"report html {OLD} --out last", f"report html {OLD} --out FILE"),
        (f"report html last --out {SUMMARY}", "report html last --out FILE"),
        ("baseline accept kept last", "baseline accept last kept"),
    ],
)
def test_a_run_where_something_is_written_is_answered_with_the_command_to_write(
    runs: Path, words: str, right: str
) -> None:
    before = (runs / OLD / "summary.json").read_bytes()
    with pytest.raises(UserError, match=f"^write `refusal-checks {right}"):
        call(*words.split())
    assert (runs / OLD / "summary.json").read_bytes() == before


def test_runs_are_listed_and_shown_as_json(runs: Path) -> None:
    (runs / "20260103-120000Z-3").mkdir()
    summary = json.loads((runs / NEW / "summary.json").read_text())
    summary["manifest"]["candidate"] = "\x1b[31m##vso[task] \u202e\n::error::x"
    seal(runs / NEW, summary)
    listed = json.loads(call("runs", "list", "--json").output)
    assert [(run["run"], run["answer"], run["total"]) for run in listed] == [
        (OLD, "not decided", 3),
        (NEW, "not decided", 3),
        ("20260103-120000Z-3", "unfinished", None),
    ]
    said = call("runs", "list", NEW, "--json").output
    shown = json.loads(said)
    assert shown["manifest"]["candidate"] == summary["manifest"]["candidate"]
    assert not {"\x1b", "\u202e"} & set(said)
    assert "##vso[" not in said
    assert not any(line.startswith("::") for line in said.splitlines())
    with pytest.raises(UserError, match="--verbose: name the run"):
        call("runs", "list", "-v")


def test_lists_of_runs_fit_80_columns_and_keep_names_apart(runs: Path) -> None:
    for number in (1, 2):
        manifest = {"candidate": f"organisation/a-very-long-model-name-of-{number}"}
        folder = runs / f"20260103-120000Z-400000{number}"
        write_run(folder, {"unsafe": HARMFUL}, manifest=manifest)
    lines = call("runs", "list").output.splitlines()
    assert max(map(len, lines)) < 80
    assert [line[-4:] for line in lines[-2:]] == ["of-1", "of-2"]
