"""``load_run``: what it gives, where it looks, and wrong arguments."""

from pathlib import Path

import pytest

import refusal_checks
from refusal_checks.core.errors import DataError, UserError
from refusal_checks.results import project as project_of
from refusal_checks.results import run_folder
from tests.support.report_runs import GATES, refusals, write_run


def test_the_package_lists_its_public_names() -> None:
    assert dir(refusal_checks) == sorted(refusal_checks.__all__)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    records = {
        "unsafe": list(refusals("unsafe", 20)),
        "safe": list(refusals("safe", 10)),
    }
    write_run(tmp_path / run_folder.ROOT / "20260101-120000Z-1", records)
    return tmp_path


def test_a_result_has_verdicts_records_and_a_frame(project: Path) -> None:
    result = refusal_checks.load_run()
    again = refusal_checks.load_run("2026", project / run_folder.ROOT)
    assert result.folder.name == again.folder.name
    known = {gate.id for gate in GATES if gate.benchmark in ("unsafe", "safe")}
    assert set(result.verdicts) == known
    frame = result.frame()
    rows = sum(len(list(result.records(name))) for name in result.figures)
    assert len(frame) == rows == (20 + 10) * 3, "three answers a prompt"
    assert frame.columns[-3:].tolist() == ["groups", "messages", "votes"]


def test_a_run_is_looked_for_where_the_variable_says(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / run_folder.ROOT).rename(project / "moved")
    with pytest.raises(DataError, match="no runs found"):
        refusal_checks.load_run()
    monkeypatch.setenv(project_of.RUNS_VARIABLE, "moved")
    assert refusal_checks.load_run().folder.parent.name == "moved"


def test_a_run_that_goes_on_has_no_result(project: Path) -> None:
    goes_on = project / run_folder.ROOT / "20260102-120000Z-1"
    goes_on.mkdir()
    with pytest.raises(DataError, match="name the folder of a run, which"):
        refusal_checks.load_run()


def test_a_name_that_is_no_name_is_refused() -> None:
    with pytest.raises(
        UserError, match='give "last", an id or a folder in place of None'
    ):
        refusal_checks.load_run(None)  # type: ignore[arg-type]
