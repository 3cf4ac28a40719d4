"""The runs of a project."""

from __future__ import annotations

from pathlib import Path

import pytest

from refusal_checks.core.errors import DataError
from refusal_checks.results import run_folder

NAMES = [
    "20260101-120000-77",
    "20260102-120000-5-1",
    "20260102-120000-5-2",
    "20260102-120000-5-10",
    "20260102-120001-4",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Runs, among other folders."""
    for name in [*reversed(NAMES), "notes", "20260102", "2026010x-120000-1", "20261399-120000-1"]:
        (tmp_path / name).mkdir()
    (tmp_path / "20260103-120000-1").write_text("a file")
    return tmp_path


def test_runs_are_listed_in_the_order_of_their_starts(root: Path) -> None:
    assert [run.path.name for run in run_folder.all_runs(root)] == NAMES
    assert run_folder.all_runs(root / "missing") == []


def test_a_run_is_found_by_folder_summary_id_and_as_the_last(root: Path) -> None:
    summary = root / NAMES[1] / "summary.json"
    summary.write_text("{}")
    for name in (str(root / NAMES[1]), str(summary), NAMES[1]):
        assert run_folder.find(name, root).path == root / NAMES[1]
    assert run_folder.find("last", root).path.name == NAMES[-1]


def test_a_run_that_is_not_there_is_named(root: Path) -> None:
    with pytest.raises(DataError, match='no run "20260102-120001-5"; did you mean "20260102-12000'):
        run_folder.find("20260102-120001-5", root)
    with pytest.raises(DataError, match=r"^nope: name a run's folder, or give --runs DIR: no runs"):
        run_folder.find("nope", root / "missing")
    with pytest.raises(DataError, match='no run ""'):
        run_folder.find("", root)


def test_the_start_of_an_id_is_enough_where_it_is_one_run_s(root: Path) -> None:
    assert run_folder.find("20260101", root).path.name == NAMES[0]
    assert run_folder.find("20260102-120000-5-1", root).path.name == NAMES[1]
    with pytest.raises(DataError, match=r"20260102: give more of the id; it begins 2.*-5-1, .*-4"):
        run_folder.find("20260102", root)


def test_last_is_the_run_even_beside_a_folder_of_that_name(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    (root / "last").mkdir()
    assert run_folder.find("last", root).path.name == NAMES[-1]
    assert run_folder.find("./last", root).path == Path("last")
    assert run_folder.locate("last", root).name == NAMES[-1]
    assert run_folder.locate("notes", root) == Path("notes")


def test_a_run_s_folder_tells_when_it_started(root: Path) -> None:
    run = run_folder.find(NAMES[3], root)
    assert f"{run.started:%Y-%m-%d %H:%M:%S}" == "2026-01-02 12:00:00"
