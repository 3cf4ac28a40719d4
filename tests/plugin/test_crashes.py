"""What a crash loses: at most what was in flight. What is written, the next run uses."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

import psutil
import pytest

from refusal_checks.core.records import Completion
from refusal_checks.core.store import Store, content_key
from tests.fake_server import FakeServer
from tests.plugin import engine_project
from tests.plugin.conftest import well_behaved
from tests.processes import wait_until

IN_FLIGHT = 4
ONE = ("--samples", "2", "--in-flight", str(IN_FLIGHT), "-k", "smoke_unsafe")
"""Two gates on 80 prompts, each with two answers that differ, so 160 verdicts."""

LIMIT = 400_000
"""Bytes that a file, or a whole disk, may have: more than a run's reports, less than its store."""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def slow() -> Iterator[FakeServer]:
    """A server that takes its time."""
    with FakeServer(well_behaved, delay=0.1) as server:
        yield server


def models(server: FakeServer) -> tuple[str, ...]:
    return "--candidate", f"{server.url}#fake", "--judge", f"{server.url}#fake"


@pytest.fixture
def start(project: pytest.Pytester, slow: FakeServer) -> Start:
    """Starts a run on the slow server."""

    def begin(*args: str, limit: int | None = None) -> subprocess.Popen[str]:
        def limited() -> None:
            if limit:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        return subprocess.Popen(
            [sys.executable, "-m", "pytest", *models(slow), *ONE, *args],
            cwd=project.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=limited,
        )

    return begin


def finish(project: pytest.Pytester, server: FakeServer, *args: str) -> pytest.RunResult:
    """A run on the same server, which now answers at once."""
    server.delay = 0.0
    result = project.runpytest_subprocess(*models(server), *ONE, *args)
    result.assert_outcomes(passed=2)
    return result


def test_a_killed_run_loses_what_was_in_flight_and_no_more(
    project: pytest.Pytester, slow: FakeServer, start: Start, mode: tuple[str, ...]
) -> None:
    with start(*mode) as session:
        assert wait_until(lambda: len(slow.asked(judge=True)) >= 40, 60)
        session.kill()
    before = len(slow.asked(judge=False))
    finish(project, slow, *mode)
    assert len(slow.asked(judge=False)) - before < 80 - IN_FLIGHT
    assert 80 <= len(slow.asked(judge=False)) <= 80 + IN_FLIGHT
    assert 160 <= len(slow.asked(judge=True)) <= 160 + 2 * IN_FLIGHT
    total = len(slow.requests)
    finish(project, slow)
    assert len(slow.requests) == total


def test_a_store_that_may_not_grow_is_named_and_the_next_run_goes_on(
    project: pytest.Pytester, slow: FakeServer, start: Start
) -> None:
    slow.delay = 0.0
    with start(limit=LIMIT) as session:
        said = session.communicate()[0]
    assert session.returncode == 1, said
    assert "Traceback" not in said
    assert "2 errors" in said
    store = project.path / ".refusal-checks" / "store.sqlite"
    assert f"the store {store}: disk I/O error; the disk, a quota or a limit on file" in said
    before = len(slow.asked(judge=False))
    finish(project, slow)
    assert len(slow.asked(judge=False)) <= 80 + IN_FLIGHT
    assert before >= IN_FLIGHT


@pytest.fixture
def small_disk(project: pytest.Pytester) -> Iterator[Path]:
    """The project's own folder on a disk with little room."""
    folder = project.mkdir(".refusal-checks")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={2 * LIMIT}", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_named_and_the_next_run_goes_on(
    project: pytest.Pytester,
    slow: FakeServer,
    start: Start,
    small_disk: Path,
) -> None:
    slow.delay = 0.0
    with start() as session:
        said = session.communicate()[0]
    assert session.returncode == 1, said
    assert "Traceback" not in said
    assert "2 errors" in said
    assert f"the store {small_disk / 'store.sqlite'}: database or disk is full; free" in said
    subprocess.run(["mount", "-o", "remount,size=50m", str(small_disk)], check=True)
    finish(project, slow)
    assert len(slow.asked(judge=False)) <= 80 + IN_FLIGHT


@pytest.mark.nightly
def test_a_disk_that_is_full_from_the_start_is_named_before_anything_is_asked_for(
    project: pytest.Pytester, slow: FakeServer, start: Start, small_disk: Path
) -> None:
    (small_disk / "filler").write_bytes(bytes(2 * LIMIT))
    with start() as session:
        said = session.communicate()[0]
    assert session.returncode == 4, said
    assert "Traceback" not in said
    assert "full" in said
    assert slow.requests == []


def test_damage_in_the_middle_of_a_run_is_named(
    project: pytest.Pytester, slow: FakeServer, start: Start
) -> None:
    store = project.path / ".refusal-checks" / "store.sqlite"
    with Store(store) as filled:  # more than SQLite keeps in memory
        filled.add_completions({content_key(i): Completion("a") for i in range(60_000)})
    with start() as session:
        assert wait_until(lambda: len(slow.requests) > 0, 60)
        with store.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(4096)
            file.write(b"\xff" * (size - 4096))
        said = session.communicate()[0]
    assert session.returncode == 1, said
    assert "Traceback" not in said
    assert f"the store {store}: database disk image is malformed; the file is damaged" in said
    result = project.runpytest_subprocess(*models(slow), *ONE)
    assert result.ret == 4
    assert "move it away" in result.stderr.str()


def test_two_runs_at_once_share_a_store(
    project: pytest.Pytester, slow: FakeServer, start: Start
) -> None:
    slow.delay = 0.02
    with start() as one, start() as other:
        said = [session.communicate()[0] for session in (one, other)]
    assert [one.returncode, other.returncode] == [0, 0], said
    rows = [[line for line in text.splitlines() if line.startswith("pass ")] for text in said]
    assert len(rows[0]) == 2
    assert rows[0] == rows[1]
    assert not any("locked" in text or "note: the store" in text for text in said)


def read_until(session: subprocess.Popen[str], text: str, times: int) -> str:
    """What a run has printed once it said this so many times."""
    assert session.stdout is not None
    said = ""
    while said.count(text) < times:
        said += session.stdout.read(1)
        assert session.poll() is None, said
    return said


def kill_workers(session: subprocess.Popen[str]) -> None:
    """Kill all xdist workers of a run, but not the guard of its engine."""
    for child in psutil.Process(session.pid).children():
        with suppress(psutil.ZombieProcess):
            if "refusal_checks.engines.guard" not in child.cmdline():
                child.send_signal(signal.SIGKILL)


@pytest.mark.parametrize("dist", ["load", pytest.param("worksteal", marks=pytest.mark.nightly)])
def test_killed_xdist_workers_are_replaced_and_the_gates_get_their_verdicts(
    project: pytest.Pytester, slow: FakeServer, start: Start, dist: str
) -> None:
    with start("-n2", "-v", "--dist", dist, "--junitxml", "report.xml") as session:
        said = read_until(session, "::test_gate[", 2)
        kill_workers(session)
        slow.delay = 0.01
        said += session.communicate()[0]
    assert session.returncode == 0, said
    assert said.count("replacing crashed worker") == 2
    assert "= 2 passed, 2 skipped in " in said
    assert said.count("pass  ") == 2, said
    assert len(slow.asked(judge=False)) == 80
    assert said.count("answers to generate") == 1
    cases = ElementTree.parse(project.path / "report.xml").iter("testcase")
    outcomes = [(case.get("name"), [child.tag for child in case]) for case in cases]
    gates = sorted({name for name, _ in outcomes if name})
    assert sorted(outcomes) == sorted(
        (name, tags) for name in gates for tags in (["properties"], ["skipped"])
    )


def test_a_gate_whose_workers_die_is_an_error_and_has_not_failed(
    slow: FakeServer, start: Start
) -> None:
    slow.delay = 2.0  # two workers start before the work is done, on a busy machine too
    with start("-n1", "-v", "-rs") as session:
        said = read_until(session, "::test_gate[", 1)
        kill_workers(session)
        said += read_until(session, "::test_gate[", 2)  # skipped, then run again
        kill_workers(session)
        slow.delay = 0.01
        said += session.communicate()[0]
    assert session.returncode == 1, said
    assert "SKIPPED [1]" in said
    assert "worker 'gw0' crashed while" in said
    assert "1 passed, 1 skipped, 1 error in " in said
    assert "FAILED" not in said


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("dist", "status", "outcomes"),
    [("loadfile", 0, "= 2 passed, 1 skipped in "), ("each", 1, "= 1 passed, 1 error in ")],
)
def test_a_killed_worker_that_has_every_gate_of_its_own(
    slow: FakeServer, start: Start, dist: str, status: int, outcomes: str
) -> None:
    with start("-n1", "-v", "--dist", dist) as session:
        said = read_until(session, "::test_gate[", 1)
        kill_workers(session)
        slow.delay = 0.01
        said += session.communicate()[0]
    assert session.returncode == status, said
    assert outcomes in said
    assert "FAILED" not in said


@pytest.mark.nightly
def test_an_engine_is_started_once_though_workers_are_killed(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine_project.install(project)
    monkeypatch.setenv("VLLM_FAKE", "slow")
    command = [
        sys.executable,
        "-m",
        "pytest",
        *engine_project.DEMO,
        "-k",
        "smoke_safe",
        "-n2",
        "-v",
    ]
    with subprocess.Popen(command, cwd=project.path, stdout=subprocess.PIPE, text=True) as session:
        said = read_until(session, "::test_gate[", 1)
        kill_workers(session)
        said += session.communicate()[0]
    assert session.returncode == 0, said
    assert said.count("pass  ") == 1, said
    assert len(engine_project.starts(project)) == 1
    assert engine_project.orphans(project.path) == []
