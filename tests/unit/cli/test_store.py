"""``refusal-checks store``."""

import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from refusal_checks.core.errors import DataError, StoreError
from refusal_checks.core.prompts import Kind
from refusal_checks.core.records import Completion
from refusal_checks.core.store import Store
from refusal_checks.core.verdicts import Binary, Label
from refusal_checks.gates import score_files
from tests.unit.cli.test_baseline import call

NOW = datetime.fromisoformat("2026-05-20 12:00").astimezone()
AGES = {"a": 30, "b": 20, "c": 10, "d": 0}
"""Days since the last use of what is stored, by key."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder with a store, and a run 21 days ago, one 10 days ago, one today."""
    monkeypatch.chdir(tmp_path)
    own = tmp_path / ".refusal-checks"
    with Store(own / "store.sqlite") as store:
        for key, days in AGES.items():
            at = (NOW - timedelta(days=days)).timestamp()
            monkeypatch.setattr(time, "time", lambda at=at: at)
            store.add_completions({key: Completion(f"answer {key} " * 100)})
            store.add_judgements({f"verdict {key}": Binary(Label.REFUSAL)})
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    for days in (21, 10, 0):
        (own / "runs" / f"{NOW - timedelta(days=days):%Y%m%d-%H%M%SZ}-17").mkdir(
            parents=True
        )
    return own


def left(folder: Path) -> str:
    """The keys of the answers that the store still has."""
    with Store(folder / "store.sqlite") as store:
        return "".join(sorted(store.completions(AGES)))


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ((), "bcd"),
        (("--keep-runs", "2"), "cd"),
        (("--keep-runs", "1"), "d"),
        (("--keep-runs", "99"), "bcd"),
    ],
)
def test_what_no_kept_run_used_is_dropped(
    folder: Path, options: tuple[str, ...], kept: str
) -> None:
    found = call("store", "gc", *options)
    assert found.exit_code == 0
    assert f"{4 - len(kept)} answers, {4 - len(kept)} verdicts" in found.output
    assert "on disk before" in found.output
    assert left(folder) == kept


def test_a_dry_run_drops_nothing(folder: Path) -> None:
    found = call("store", "gc", "--keep-runs", "1", "--dry-run")
    assert "store.sqlite: 4 answers, 4 verdicts: 4." in found.output
    assert "on disk" in found.output
    assert "not used since 2026-05-20 12:00:00: 3 answers, 3 verdicts" in found.output
    assert "nothing was dropped" in found.output
    assert left(folder) == "abcd"


@pytest.mark.parametrize("days", ["-1", "1e9", "inf", "nan"])
def test_days_that_no_calendar_has_are_refused(folder: Path, days: str) -> None:
    found = call("store", "gc", "--keep-days", days)
    assert found.exit_code == 2
    assert "--keep-days" in found.output
    assert left(folder) == "abcd"


def test_days_are_counted_and_of_two_limits_the_one_that_keeps_more(
    folder: Path,
) -> None:
    days = (datetime.now().astimezone() - NOW).total_seconds() / 86400
    call("store", "gc", "--keep-days", str(days + 15))
    assert left(folder) == "cd"
    call("store", "gc", "--keep-days", "0", "--keep-runs", "2")
    assert left(folder) == "cd"


def test_a_baseline_keeps_its_answers(folder: Path, tmp_path: Path) -> None:
    prompts = {
        "p1": score_files.PromptScores("f", {}, (("a", "refusal"), ("gone", "refusal")))
    }
    scores = score_files.Scores("mine", Kind.SAFETY, "m", "1", "2026", {}, {}, prompts)
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "mine.json").write_text(score_files.dump(scores))
    call("store", "gc", "--keep-runs", "1", "--baseline", tmp_path / "base")
    assert left(folder) == "ad"


def test_without_any_run_nothing_is_dropped_by_chance(folder: Path) -> None:
    with pytest.raises(DataError, match="no runs found, so it is unknown what to keep"):
        call("store", "gc", "--runs", "elsewhere")
    assert left(folder) == "abcd"


def test_a_store_that_is_not_there_is_not_made(folder: Path) -> None:
    with pytest.raises(DataError, match=r"other\.sqlite: no such store"):
        call("store", "gc", "--store", "other.sqlite")
    assert not Path("other.sqlite").exists()


def test_a_file_that_is_no_store_is_named(folder: Path) -> None:
    Path("notes").write_text("no database, only words" * 99)
    with pytest.raises(StoreError, match="notes: file is not a database"):
        call("store", "gc", "--store", "notes")
