"""``load_run``: the notebook-style example of docs/reference/api.md, and wrong arguments."""

import subprocess
import sys
from pathlib import Path

import pytest

import refusal_checks
from refusal_checks.core.errors import DataError
from refusal_checks.results import run_folder
from tests.plugin.docs import Page
from tests.report_runs import GATES, refusals, write_run

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    records = {"unsafe": list(refusals("unsafe", 20)), "safe": list(refusals("safe", 10))}
    write_run(tmp_path / run_folder.ROOT / "20260101-120000Z-1", records)
    return tmp_path


@pytest.mark.usefixtures("project")
def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    known: dict[str, object] = {}
    for _, text in Page(ROOT / "docs" / "reference" / "api.md").blocks("python"):
        exec(text, known)
    shown = capsys.readouterr().out
    assert "unsafe-rejection_rate" in shown
    assert "compliance" in shown


def test_a_run_has_gates_records_and_a_frame(project: Path) -> None:
    run = refusal_checks.load_run()
    assert run.path.name == refusal_checks.load_run("2026", project / run_folder.ROOT).path.name
    assert set(run.gates) == {gate.id for gate in GATES if gate.benchmark in ("unsafe", "safe")}
    frame = run.frame()
    assert len(frame) == sum(1 for name in run.benchmarks for _ in run.records(name)) == 90
    assert frame.columns[-3:].tolist() == ["groups", "messages", "votes"]


def test_a_run_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="no runs found"):
        refusal_checks.load_run("last")


def test_importing_the_package_and_naming_a_run_import_no_pandas() -> None:
    code = "import sys, refusal_checks; refusal_checks.load_run('.'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pandas", "datasets", "torch"} & set(done.stdout.split())
