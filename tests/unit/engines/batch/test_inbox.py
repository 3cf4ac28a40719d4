"""Results between their import and the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from refusal_checks.core.errors import StoreError
from refusal_checks.engines.batch.files import SHOWN, Inbox, ResultLine


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def results(store: Path) -> Iterator[Inbox]:
    found = Inbox(store)
    yield found
    found.close()


def answers(*ids: str) -> list[ResultLine]:
    return [ResultLine(each, {"choices": [each]}) for each in ids]


def test_lines_are_counted_by_what_they_are_and_the_first_of_a_request_stays(
    results: Inbox,
) -> None:
    faults = [ResultLine("", fault="malformed", words=f"m{i}") for i in range(5)]
    other = ResultLine("a", {"choices": ["other"]})
    found = results.take([*answers("a", "b"), other, *faults, ResultLine("c", fault="failed")])
    assert found.counts == Counter(answered=2, duplicate=1, malformed=5, failed=1)
    assert found.examples == ["m0", "m1", "m2"][:SHOWN]
    assert results.get("a") == {"choices": ["a"]}
    assert results.get("c") is None


def test_what_was_used_and_what_nobody_wants_is_gone(results: Inbox, store: Path) -> None:
    results.take(answers("used", "kept", "unasked"))
    assert results.ask("used")
    assert not results.ask("used")
    assert results.ask("kept")
    results.ask("never answered")
    results.keep(["kept"])
    assert results.clear() == Counter(used=1, kept=1, unasked=1)
    assert [results.get(each) for each in ("used", "unasked")] == [None, None]
    results.close()
    again = Inbox(store)
    assert again.get("kept") == {"choices": ["kept"]}
    # It comes once more, in an import of the same file: neither a duplicate nor unasked for.
    assert again.take(answers("kept")).counts == Counter(answered=1)
    again.ask("kept")
    assert again.clear() == Counter(used=1, kept=0, unasked=0)
    again.close()


def test_a_round_that_breaks_off_changes_nothing_and_an_empty_file_goes(store: Path) -> None:
    results = Inbox(store)
    assert len(list(store.parent.iterdir())) > 0
    results.take(answers("a"))
    results.close()
    assert not list(store.parent.iterdir())


def test_a_file_of_something_else_is_said(store: Path) -> None:
    store.with_name("store-batch.sqlite").write_text("no database" * 100)
    with pytest.raises(StoreError, match=r"store-batch\.sqlite"):
        Inbox(store)
