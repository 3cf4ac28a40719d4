"""The page of a run that goes on."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from refusal_checks.gates.gate import Gate
from refusal_checks.reports.page import follow
from refusal_checks.reports.page.follow import LivePage
from refusal_checks.results.redact import Redaction
from tests.deciding import decide
from tests.html_page import Page
from tests.report_runs import HOSTILE, tell, underway
from tests.unit.conftest import record, records

GATE, LATER = Gate("bench", "rejection_rate", 0.9), Gate("later", "rejection_rate", 0.9)


class Going:
    """A run that goes on, and its page."""

    def __init__(self, folder: Path, redacted: bool = False) -> None:
        self.page = folder / "page.html"
        self.said: list[str] = []
        self.has_ended = False
        self.run = replace(
            underway(folder / "run", (GATE, LATER), bench=100, later=10),
            redaction=Redaction(redacted),
            has_ended=lambda: self.has_ended,
        )
        self.run.progress.phase = "checking the judge"
        self.follower = LivePage([self.run], self.page, self.said.append)
        tell(self.run, self.follower.see)

    def judge(self, verdicts: str) -> None:
        progress = self.run.progress
        progress.plan({"bench": 100})
        for number, word in enumerate(verdicts.split()):
            answers = [record(each, f"p{number}", n) for n, each in enumerate(word)]
            progress.answered("bench")
            progress.judged("bench", answers)

    def look(self) -> Page:
        self.follower.write()
        return Page(self.page)


@pytest.fixture
def going(tmp_path: Path) -> Iterator[Going]:
    found = Going(tmp_path)
    yield found
    found.follower.stop()


def test_the_page_says_how_far_the_run_is(going: Going) -> None:
    going.judge("RR RC CC R-")
    page = going.look()
    assert "This run is in progress 4% judged demo:some" in page.words
    assert (
        "checking the judge; 4 of 110 prompts judged; 0 of 2 gates decided"
        in page.words
    )
    assert "bench 4 4 of 100 8 1 later 0 0 of 10 0 0" in page.words
    expected = decide(GATE, records("RR RC CC R-")).estimate
    assert f"outside so far bench rejection_rate {expected.value:.1%}" in page.words
    assert "waiting later rejection_rate" in page.words
    (found,) = page.data("records")
    assert [prompt[0] for prompt in found["prompts"]] == ["p3", "p2", "p1", "p0"]
    (line,) = (found for found in page.named("p") if found.get("id") == "going")
    assert line["data-written"]


def test_a_verdict_replaces_the_early_look_and_a_new_beginning_forgets_it(
    going: Going,
) -> None:
    going.judge("RR RC")
    going.run.summary.verdicts[GATE.id] = decide(GATE, records("RR RC"))
    going.run.summary.errors[LATER.id] = "no <b>answer</b>"
    words = going.look().words
    assert "2 of 2 gates decided" in words
    assert "so far bench" not in words
    assert "FAIL? bench rejection_rate" in words
    assert "ERROR later-rejection_rate no <b>answer</b>" in words
    going.run.summary.verdicts.clear()
    going.judge("CC")
    assert "n = 1" in going.look().words


def test_a_redacted_run_shows_no_text(tmp_path: Path) -> None:
    going = Going(tmp_path, redacted=True)
    going.follower.stop()
    going.judge("RC")
    going.look()
    text = going.page.read_text()
    for secret in ("request p0", "answer 0", "it declines"):
        assert secret not in text
    assert "[redacted: sha256" in text


def test_hostile_answers_are_text(going: Going) -> None:
    going.judge("R")
    for number, text in enumerate(HOSTILE):
        going.run.progress.judged("bench", [record("R", f"h{number}", text=text)])
    page = going.look()
    page.require_harmless()
    assert len(page.scripts) == 3


def test_a_run_that_has_ended_beside_one_that_goes_on_shows_its_answer(
    going: Going,
) -> None:
    going.judge("RR RC")
    going.run.summary.verdicts[GATE.id] = decide(GATE, records("RR RC"))
    going.has_ended = True
    assert "May it ship? No" in going.look().words


@pytest.fixture
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is looked at and written all the time."""
    monkeypatch.setattr(follow, "LOOK", 0.01)
    monkeypatch.setattr(follow, "EVERY", 0.01)


@pytest.mark.usefixtures("_eager")
def test_it_is_written_with_the_first_answer_and_never_after_the_end(
    tmp_path: Path,
) -> None:
    going = Going(tmp_path)
    going.page.write_text("earlier")
    threading.Event().wait(0.1)
    assert going.page.read_text() == "earlier"
    going.judge("RC")
    while not going.said:
        threading.Event().wait(0.01)
    assert going.said == [f"open {going.page} in a browser to follow the run"]
    going.follower.stop()
    going.page.write_text("the report")
    threading.Event().wait(0.1)
    assert going.page.read_text() == "the report"


@pytest.mark.usefixtures("_eager")
def test_a_full_disk_is_said_once_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def full(*_: object, **__: object) -> None:
        tries.append(1)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("refusal_checks.reports.page.page.write", full)
    going = Going(tmp_path)
    going.judge("RC")
    while len(tries) < 3:
        threading.Event().wait(0.01)
    going.follower.stop()
    (line,) = going.said
    assert "not written while the run goes on" in line
    assert "No space left on device" in line


def test_few_records_are_shown_of_many(going: Going) -> None:
    going.judge("RC " * 200)
    (found,) = going.look().data("records")
    assert len(found["prompts"]) == follow.RECENT
    assert going.page.stat().st_size < 200_000
