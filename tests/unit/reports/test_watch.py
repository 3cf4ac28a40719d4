"""The page about a run that goes on: what it reads, and whom it answers."""

from __future__ import annotations

import http.client
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from refusal_checks.core.records import Record
from refusal_checks.gates.gate import Gate
from refusal_checks.reports.watch.reading import LiveRun
from refusal_checks.reports.watch.server import Server, page
from refusal_checks.reports.watch.view import View
from refusal_checks.results import live
from refusal_checks.results.live import LiveLog, LivePlan
from refusal_checks.results.outbox import Board, Published
from refusal_checks.results.progress import Progress
from refusal_checks.results.redact import Redaction
from refusal_checks.results.run_folder import RunFolder
from tests.deciding import decide
from tests.report_runs import HOSTILE, refusals, usual
from tests.unit.conftest import make_record, make_records

GATE = Gate("bench", "rejection_rate", 0.9)
PLAN = LivePlan(
    "demo", "judge", {"bench": 100, "other": 10}, (GATE, replace(GATE, benchmark="other"))
)

Write = Callable[..., LiveLog]


class Going:
    """A run that goes on."""

    def __init__(self, folder: Path, redacted: bool = False) -> None:
        self.folder = folder / f"20260101-000000-{os.getpid()}"
        self.progress = Progress()
        self.log = LiveLog(self.folder, self.progress, Redaction(redacted).records)
        self.log.start(replace(PLAN, redacted=redacted))
        self.progress.plan({"bench": 100})

    def judge(self, verdicts: str, first: int = 1) -> None:
        for number, word in enumerate(verdicts.split(), first):
            answers = [make_record(each, f"p{number}", n) for n, each in enumerate(word)]
            self.progress.judged("bench", answers)


@pytest.fixture
def going(tmp_path: Path) -> Iterator[Going]:
    found = Going(tmp_path)
    yield found
    found.log.stop(keep=True)


def values(folder: Path, after: int = 0) -> dict[str, Any]:
    view = View([folder])
    view.refresh()
    return view.values(after)


def test_answers_verdicts_and_figures_are_there_while_the_run_goes_on(going: Going) -> None:
    going.progress.phase = "checking the judge"
    going.judge("RR RC CC R-")
    going.log.stop(keep=True)
    found = values(going.folder)
    (run,) = found["runs"]
    assert found["goes_on"]
    assert (run["candidate"], run["status"], run["phase"]) == (
        "demo",
        "running",
        "checking the judge",
    )
    bench, other = run["benchmarks"]
    assert (bench["judged"], bench["planned"], bench["answers"], bench["invalid"]) == (4, 100, 8, 1)
    assert (other["judged"], other["planned"]) == (0, 10)
    gate, waiting = run["gates"]
    expected = decide(GATE, make_records("RR RC CC R-"))
    assert gate["ends"][1] == expected.estimate.value
    assert (gate["mark"], gate["n"], gate["is_within"]) == ("", 4, False)
    assert "figure" not in waiting
    assert [each["id"] for each in found["answers"]] == [
        "p1",
        "p1",
        "p2",
        "p2",
        "p3",
        "p3",
        "p4",
        "p4",
    ]
    assert found["answers"][3]["answer"] == "answer 1 (C)"
    assert values(going.folder, after=6)["answers"] == found["answers"][6:]


def test_only_what_is_new_is_read_again_and_half_a_line_waits(going: Going) -> None:
    going.judge("RR")
    going.log.stop(keep=True)
    run = LiveRun(going.folder)
    assert [name for name, _ in run.refresh()] == ["bench"]
    file = live.records_file(going.folder, "bench")
    line = file.read_bytes()
    with file.open("ab") as more:
        more.write(line[:20])
    assert list(run.refresh()) == []
    with file.open("ab") as more:
        more.write(line[20:])
    assert len(list(run.refresh())) == 1
    assert len(run.records["bench"]) == 4


def test_a_benchmark_that_begins_again_is_not_counted_twice(going: Going) -> None:
    going.judge("RR RR RR")
    going.log._write_records()
    run = LiveRun(going.folder)
    list(run.refresh())
    going.progress.plan({"bench": 100})
    going.judge("CC")
    going.log.stop(keep=True)
    list(run.refresh())
    assert len(run.records["bench"]) == 2


def test_the_published_verdict_replaces_the_early_look(going: Going) -> None:
    going.judge("RR RC")
    verdict = decide(GATE, make_records("RR RC"))
    Board(going.folder).post("bench", {GATE.id: Published(verdict)})
    Board(going.folder).post("other", {"other-rejection_rate": Published(error="no <b>answer</b>")})
    gates = values(going.folder)["runs"][0]["gates"]
    assert (gates[0]["mark"][:4], gates[0]["n"]) == ("FAIL", 2)
    assert (gates[1]["mark"], gates[1]["error"]) == ("ERROR", "no <b>answer</b>")


def test_a_redacted_run_shows_no_text(tmp_path: Path) -> None:
    going = Going(tmp_path, redacted=True)
    going.judge("RC")
    going.log.stop(keep=True)
    written = "".join(path.read_text() for path in going.folder.rglob("*.json*"))
    for text in ("request p1", "answer 0", "it declines"):
        assert text not in written
    found = values(going.folder)
    assert [each.keys() & {"prompt", "answer"} for each in found["answers"]] == [set(), set()]
    assert [each["tone"] for each in found["answers"]] == ["refusing", "answering"]
    assert found["runs"][0]["redacted"]


def test_a_run_with_texts_is_shown_without_if_none_are_wanted(going: Going) -> None:
    going.judge("RC")
    going.log.stop(keep=True)
    Board(going.folder).post("other", {"other-rejection_rate": Published(error="said: request p1")})
    view = View([going.folder], redact=True)
    view.refresh()
    found = view.values()
    assert found["runs"][0]["redacted"]
    assert [each["tone"] for each in found["answers"]] == ["refusing", "answering"]
    for text in ("request p1", "answer 0", "it declines"):
        assert text not in json.dumps(found)


def test_why_a_run_failed_is_not_shown_if_no_texts_are_wanted(tmp_path: Path) -> None:
    run = usual(tmp_path / "20260101-000000-1")
    run.write_summary(replace(run.summary(), failure="refused: request p1"))
    view = View([run.path], redact=True)
    view.refresh()
    found = json.dumps(view.values())
    assert "request p1" not in found
    assert "Request " not in found


def test_the_last_answers_reach_the_page(going: Going) -> None:
    going.judge("RR RC")
    going.log._write_records()
    run = LiveRun(going.folder)
    assert len(list(run.refresh())) == 2
    whole = [make_records("RR RC CC CR")[n : n + 2] for n in range(0, 8, 2)]
    RunFolder(going.folder).write_records("bench", [each for pair in whole for each in pair])
    going.judge("CC CR", first=3)
    going.log.stop(keep=False)
    assert [answers[0].prompt.id for _, answers in run.refresh()] == ["p3", "p4"]
    assert len(run.records["bench"]) == 8
    assert not list(run.refresh())


def test_a_crashed_run_shows_what_it_has_left(going: Going) -> None:
    going.judge("RR")
    going.log.stop(keep=True)
    plan = going.folder / "live" / "plan.json"
    content = json.loads(plan.read_text()) | {"process": 2**22 + 1}
    plan.write_text(json.dumps(content))
    found = values(going.folder)
    assert (found["goes_on"], found["runs"][0]["status"]) == (False, "lost")
    assert len(found["answers"]) == 2
    plan.write_text(json.dumps(content | {"host": "elsewhere"}))
    assert values(going.folder)["runs"][0]["status"] == "running"


def test_a_run_that_has_ended_is_shown_from_its_records(tmp_path: Path) -> None:
    folder = usual(tmp_path / "20260101-000000-1").path
    found = values(folder)
    assert not found["goes_on"]
    (run,) = found["runs"]
    assert run["answer"]
    assert len(run["gates"]) > 2
    assert all(gate["mark"] for gate in run["gates"])
    assert len(found["answers"]) == 300
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"candidate": 7}', "\0" * 10])
def test_damaged_files_are_passed_over(going: Going, content: str) -> None:
    going.judge("RR")
    going.log.stop(keep=True)
    for path in going.folder.rglob("*.json*"):
        path.write_text(content)
    (going.folder / "summary.json").write_text(content)
    assert values(going.folder)["runs"][0]["id"] == going.folder.name
    assert values(going.folder / "nowhere")["runs"][0]["status"] == "lost"


def test_a_complete_run_leaves_no_files_and_a_full_disk_stops_nothing(
    going: Going, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(live, "write_json", full)
    going.log._thread.join(timeout=10)
    assert not going.log._thread.is_alive()
    going.judge("RR " * 50)
    assert not going.log._waiting
    going.log.stop(keep=False)
    assert not (going.folder / "live").exists()


@contextmanager
def serving(folder: Path) -> Iterator[tuple[Server, Callable[..., http.client.HTTPResponse]]]:
    server = Server(View([folder]))

    def ask(path: str = "/", method: str = "GET", **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
        connection.putrequest(method, path, skip_host=True)
        for name, value in ({"Host": f"127.0.0.1:{server.server_port}"} | headers).items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse()

    try:
        yield server, ask
    finally:
        server.close()


def test_the_token_becomes_a_cookie_and_nothing_else_opens_the_page(going: Going) -> None:
    with serving(going.folder) as (server, ask):
        token = server.address.partition("token=")[2]
        assert server.server_address[0] == "127.0.0.1"
        for path in (
            "/",
            "/state",
            "/state?after=1",
            "/?token=",
            "/?token=%ff",
            f"/?token={token}x",
        ):
            assert ask(path).status == 403, path
        opened = ask(f"/?token={token}")
        assert (opened.status, opened.headers["Location"]) == (303, "/")
        cookie = opened.headers["Set-Cookie"]
        assert "HttpOnly; SameSite=Strict" in cookie
        known = {"Cookie": cookie.partition(";")[0]}
        assert ask("/", **known).status == 200
        assert json.loads(ask("/state?after=x", **known).read())["goes_on"]
        for host in ("evil.example", f"evil.example:{server.server_port}", "127.0.0.1", ""):
            assert ask("/state", **known, Host=host).status == 403, host
        assert ask("/state", Host=f"localhost:{server.server_port}", **known).status == 200
        assert ask("/../../etc/passwd", **known).status == 404
        assert ask("/", "POST", **known).status == 501
        assert ask("/", Cookie="\xff=;;=" + "x" * 2000).status == 403
        for name, value in ask("/state", Origin="http://evil.example", **known).getheaders():
            assert not name.lower().startswith("access-control"), value


def test_the_page_asks_for_nothing_from_elsewhere(going: Going) -> None:
    text, policy = page()
    assert not re.search(rb"https?://|src=|@import|url\(|innerHTML|eval\(", text)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_hostile_texts_are_made_visible_and_short(tmp_path: Path) -> None:
    going = Going(tmp_path)
    for number, text in enumerate(HOSTILE):
        going.progress.judged("bench", [make_record("R", f"p{number}", text=text)])
    going.log.stop(keep=True)
    shown = values(going.folder)["answers"]
    assert len(shown) == len(HOSTILE)
    assert all(len(each["answer"]) <= 400 for each in shown)
    assert not re.search(r"[\x00-\x08\x1b\u202e\u2066\ud800]", "".join(e["answer"] for e in shown))


def test_the_watcher_ends_once_an_open_page_knows_that_the_run_has(tmp_path: Path) -> None:
    folder = usual(tmp_path / "20260101-000000-1").path
    with serving(folder) as (server, ask):
        server.watch()  # no page is open
        assert not server.told_end
        cookie = (
            ask(f"/?{server.address.partition('?')[2]}").headers["Set-Cookie"].partition(";")[0]
        )
        server.asked = time.monotonic()
        watcher = Thread(target=server.watch, daemon=True)
        watcher.start()
        watcher.join(timeout=0.3)
        assert watcher.is_alive()
        assert not json.loads(ask("/state", Cookie=cookie).read())["goes_on"]
        watcher.join(timeout=4)
        assert not watcher.is_alive()
        assert server.told_end


def test_who_leaves_or_asks_nonsense_prints_nothing(
    going: Going, capfd: pytest.CaptureFixture[str]
) -> None:
    with serving(going.folder) as (server, ask):
        assert ask("http://[").status == 400
        for fault in (BrokenPipeError(), ConnectionResetError(), TimeoutError()):
            try:
                raise fault
            except OSError:
                server.handle_error(None, ("127.0.0.1", 1))
        assert capfd.readouterr().err == ""
        try:
            raise KeyError("a defect")
        except KeyError:
            server.handle_error(None, ("127.0.0.1", 1))
        assert "a defect" in capfd.readouterr().err


def test_many_records_do_not_keep_the_watcher_busy(going: Going) -> None:
    records: list[Record] = list(refusals("bench", 300))
    for place in range(0, len(records), 3):
        going.progress.judged("bench", records[place : place + 3])
    going.log.stop(keep=True)
    view = View([going.folder])
    view.refresh()
    view.values()
    looked = view._not_before
    view.values()
    assert view._not_before == looked
