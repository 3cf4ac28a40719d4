"""What a crash or a signal loses: at most what was in flight; the rest, the next run uses."""

import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import psutil
import pytest

from refusal_checks.core.records import Completion
from refusal_checks.core.store import Store, content_key
from tests.plugin.conftest import AGAIN, KEYWORD, PATIENT, Project, refused
from tests.processes import lives, wait_until

IN_FLIGHT = 4
ONE = ("--samples", "2", "--set", f"limits.in_flight={IN_FLIGHT}", "-k", "smoke_unsafe")
"""Two gates on 80 prompts, each with two answers that differ, so 160 verdicts."""

LIMIT = 400_000
"""Bytes that a file, or a whole disk, may have: more than a run's reports, less than its store."""


@pytest.fixture
def project(project: Project) -> Project:
    """Its server takes its time."""
    project.server.delay = 0.1
    return project


def models(project: Project) -> tuple[str, ...]:
    return "--candidate", project.model, "--judge", project.model, *ONE


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


def answered(project: Project) -> int:
    """Requests for answers, but for those by which the last run found out about the server."""
    repeated: int = project.summary()["manifest"]["asked"]["verified"]
    return len(project.asked(judge=False)) - repeated


def finish(project: Project, *args: str) -> None:
    """A run on the same server, which now answers at once."""
    project.server.delay = 0.0
    project.run(*models(project), *args).assert_outcomes(passed=2)


@pytest.mark.parametrize(
    "mode", [(), pytest.param(("-n2",), marks=pytest.mark.nightly)]
)
def test_a_killed_run_loses_what_was_in_flight_and_no_more(
    project: Project, mode: tuple[str, ...]
) -> None:
    with project.start("pytest", *models(project), *mode) as session:
        assert wait_until(lambda: len(project.asked(judge=True)) >= 40, 60)
        session.kill()
        session.wait()
    before = len(project.asked(judge=False))
    finish(project)
    assert answered(project) - before < 80 - IN_FLIGHT
    assert 80 <= answered(project) <= 80 + IN_FLIGHT
    assert 160 <= len(project.asked(judge=True)) <= 160 + 2 * IN_FLIGHT + AGAIN
    total = len(project.server.requests)
    finish(project)
    assert len(project.server.requests) == total + 2 * AGAIN


@contextmanager
def without_room(
    project: Project, said: str, prepare: Callable[[], None] | None = None
) -> Iterator[None]:
    """A run whose store cannot grow, which says so; after the block, one that goes on."""
    project.server.delay = 0.0
    with project.start("pytest", *models(project), prepare=prepare) as session:
        assert session.wait() == 1, session.said
    assert "Traceback" not in session.said
    assert "2 errors" in session.said
    store = project.path / ".refusal-checks" / "store.sqlite"
    assert f"the store {store}: {said}" in session.said
    yield
    finish(project)
    assert answered(project) <= 80 + IN_FLIGHT


def test_a_store_that_may_not_grow_is_named_and_the_next_run_goes_on(
    project: Project,
) -> None:
    said = "disk I/O error; the disk, a quota or a limit on file"
    with without_room(project, said, limited):
        assert len(project.asked(judge=False)) >= IN_FLIGHT


@pytest.fixture
def small_disk(project: Project) -> Iterator[Path]:
    """The project's own folder on a disk with little room."""
    folder = project.path / ".refusal-checks"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={2 * LIMIT}", "none", str(folder)]
    if (
        os.geteuid() != 0
        or subprocess.run(mount, capture_output=True, check=False).returncode
    ):
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_named_and_the_next_run_goes_on(
    project: Project, small_disk: Path
) -> None:
    with without_room(project, "database or disk is full; free"):
        subprocess.run(["mount", "-o", "remount,size=50m", str(small_disk)], check=True)


@pytest.mark.nightly
def test_a_disk_that_is_full_from_the_start_is_named_before_anything_is_asked_for(
    project: Project, small_disk: Path
) -> None:
    (small_disk / "filler").write_bytes(bytes(2 * LIMIT))
    refused(project.run(*models(project)), "full")
    assert project.server.requests == []


def test_damage_in_the_middle_of_a_run_is_named(project: Project) -> None:
    store = project.path / ".refusal-checks" / "store.sqlite"
    with Store(store) as filled:  # more than SQLite keeps in memory
        filled.add_completions({content_key(i): Completion("a") for i in range(60_000)})
    with project.start("pytest", *models(project)) as session:
        assert wait_until(lambda: len(project.server.requests) > 0, 60)
        with store.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(4096)
            file.write(b"\xff" * (size - 4096))
        assert session.wait() == 1, session.said
    assert "Traceback" not in session.said
    said = f"the store {store}: database disk image is malformed; the file is damaged"
    assert said in session.said
    refused(project.run(*models(project)), "move it away")


def test_two_runs_at_once_share_a_store(project: Project) -> None:
    project.server.delay = 0.02
    command = ("pytest", *models(project))
    with project.start(*command) as one, project.start(*command) as other:
        assert [one.wait(), other.wait()] == [0, 0], one.said + other.said
    rows = [
        [line for line in session.said.splitlines() if line.startswith("pass ")]
        for session in (one, other)
    ]
    assert len(rows[0]) == 2
    assert rows[0] == rows[1]
    assert "locked" not in one.said + other.said
    assert "note: the store" not in one.said + other.said
    # Whichever began later may have found something stored.
    assert answered(project) <= 80 + AGAIN, "one run waits for what the other asks"
    assert 160 <= len(project.asked(judge=True)) <= 160 + AGAIN


DYING = """
import os, pathlib, signal

def pytest_runtest_setup(item):
    is_first = item.nodeid.endswith("[smoke_unsafe-rejection_rate]")
    if "PYTEST_XDIST_WORKER" in os.environ and is_first:
        with open("deaths", "a+") as file:
            file.seek(0)
            if len(file.read()) < %d:
                file.write("x")
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)
"""
"""Kills the worker that is about to look at a gate, so many times."""


@pytest.mark.parametrize(
    "dist", ["load", pytest.param("worksteal", marks=pytest.mark.nightly)]
)
def test_a_killed_worker_is_replaced_and_its_gate_gets_its_verdict(
    project: Project, dist: str
) -> None:
    project.conftest(DYING % 1)
    report = ("--junitxml", "report.xml")
    result = project.run(*models(project), "-n2", "-v", "--dist", dist, *report)
    said = result.stdout.str()
    assert result.ret == 0, said
    assert said.count("replacing crashed worker") == 1
    assert "= 2 passed, 1 skipped in " in said
    assert said.count("pass  ") == 2, said
    assert len(project.asked(judge=False)) == 80
    assert said.count("answers to generate") == 1
    cases = ElementTree.parse(project.path / "report.xml").iter("testcase")
    outcomes = sorted([child.tag for child in case] for case in cases)
    assert outcomes == [["properties"], ["properties"], ["skipped"]]


def test_a_gate_whose_workers_die_is_an_error_and_has_not_failed(
    project: Project,
) -> None:
    project.conftest(DYING % 2)
    result = project.run(*models(project), "-n1", "-v", "-rs")
    said = result.stdout.str()
    assert result.ret == 1, said
    for part in (
        "SKIPPED [1]",
        "worker 'gw0' crashed while",
        "1 passed, 1 skipped, 1 error in ",
    ):
        assert part in said
    assert "FAILED" not in said


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("dist", "status", "outcomes"),
    [
        ("loadfile", 0, "= 2 passed, 1 skipped in "),
        ("each", 1, "= 1 passed, 1 error in "),
    ],
)
def test_a_killed_worker_that_has_every_gate_of_its_own(
    project: Project, dist: str, status: int, outcomes: str
) -> None:
    project.conftest(DYING % 1)
    result = project.run(*models(project), "-n1", "-v", "--dist", dist)
    assert result.ret == status, result.stdout.str()
    assert outcomes in result.stdout.str()
    assert "FAILED" not in result.stdout.str()


def alone() -> None:
    """A process group of its own, that hears a hang-up even if these tests run under nohup."""
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("interrupt", "number", "mode"),
    [
        # What a terminal does, and some schedulers: the whole process group gets the signal.
        (os.killpg, signal.SIGINT, ()),
        (os.kill, signal.SIGINT, ("-n2",)),
        (os.killpg, signal.SIGTERM, ("-n2",)),
        (os.kill, signal.SIGHUP, ()),
    ],
    ids=["all", "n2", "all-terminated-n2", "hung up"],
)
def test_an_interrupted_run_says_what_is_done_and_goes_on_next_time(
    project: Project,
    interrupt: Callable[[int, int], None],
    number: int,
    mode: tuple[str, ...],
) -> None:
    project.server.delay = 0.2
    project.conftest(PATIENT)
    command = ("pytest", *models(project), *mode, "--junitxml", "j.xml")
    with project.start(*command, prepare=alone) as session:
        assert wait_until(lambda: len(project.asked(judge=True)) >= 12, 60)
        started = psutil.Process(session.pid).children(recursive=True)
        interrupt(session.pid, number)
        assert session.wait() == 2, session.said
    said = session.said
    assert wait_until(lambda: not any(map(lives, started))), said
    assert "Traceback" not in said
    assert "crashed" not in said
    assert "0 of 2 gates decided" in (project.path / "j.xml").read_text()
    done = re.search(r"smoke_unsafe: (\d+) of 80 prompts answered, (\d+) judged", said)
    assert done, said
    assert 0 < int(done[2]) <= int(done[1]) < 80
    assert "0 of 2 gates decided" in said
    assert "to continue, run the same command again: " in said
    assert str(project.path / ".refusal-checks" / "store.sqlite") in said
    before = len(project.asked(judge=False))
    project.server.delay = 0.0
    project.run(*models(project)).assert_outcomes(passed=2)
    assert 80 <= answered(project) <= 80 + 4
    assert answered(project) - before <= 80 - int(done[1]) + 4


def test_a_run_that_cleans_up_after_its_last_verdict_is_complete(
    project: Project,
) -> None:
    project.conftest(
        """
        import asyncio
        from refusal_checks.models.client.client import Client

        async def leave_slowly(self, *exception):
            await asyncio.sleep(1)

        Client.__aexit__ = leave_slowly
        """
    )
    models = ("--candidate", project.model, *KEYWORD)
    result = project.run(*models, "--samples", "1", "-W", "ignore")
    result.assert_outcomes(passed=3)
    assert "stopped before it was complete" not in result.stdout.str()


LATE = """
import asyncio, itertools, os, pathlib, signal, threading, time

run = asyncio.run

def run_late(work):
    if work.cr_code.co_name == '_evaluate':
        %s
    return run(work)

asyncio.run = run_late
"""


def test_an_interrupt_before_the_first_request_ends_the_run_too(
    project: Project,
) -> None:
    project.conftest(LATE % "os.kill(os.getpid(), signal.SIGINT)")
    result = project.run("--candidate", project.model, *KEYWORD)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert project.server.requests == []
    result.stdout.fnmatch_lines(["*the evaluation was stopped before it was complete*"])


def test_two_interrupts_end_a_run_that_listens_to_nothing(project: Project) -> None:
    keeps_the_interpreter = "sum(itertools.repeat(1, 10**11))"
    project.conftest(LATE % f"pathlib.Path('stuck').touch(); {keeps_the_interpreter}")
    with project.start("pytest", "--candidate", project.model, *KEYWORD) as session:
        assert wait_until((project.path / "stuck").exists, 60)
        started = psutil.Process(session.pid).children(recursive=True)
        begun = time.monotonic()
        os.kill(session.pid, signal.SIGINT)
        time.sleep(0.3)
        os.kill(session.pid, signal.SIGINT)
        session.wait(20)
        assert time.monotonic() - begun < 6  # one alone has 7
        assert wait_until(lambda: not any(map(lives, started)), 5)
