"""What a signal or a crash of pytest loses, and that no process outlives the session.

Each test starts pytest in a process of its own, which it kills or interrupts.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from refusal_checks import load_run
from tests.plugin.conftest import (
    KEYWORD,
    UNVERIFIED,
    Project,
)
from tests.support.fake_engines import orphans, starts
from tests.support.processes import lives
from tests.support.project import wait_for

IN_FLIGHT = 4
ONE = ("--samples", "2", "--set", f"limits.in_flight={IN_FLIGHT}", "-k", "smoke_unsafe")
"""Two gates on 80 prompts, each with two answers that differ, so 160 verdicts."""

LIMIT = 400_000
"""Bytes that a file may have: more than a run's reports, less than its store."""


@pytest.fixture
def slow(project: Project) -> Project:
    """Its server takes its time."""
    project.server.delay = 0.1
    return project


def models(project: Project) -> tuple[str, ...]:
    return "--candidate", project.model, "--judge", project.model, *ONE


def answered(project: Project) -> int:
    """Requests for answers."""
    return len(project.asked(judge=False))


def finish(project: Project) -> None:
    """A run on the same server, which now answers at once."""
    project.server.delay = 0.0
    project.run(*models(project)).assert_outcomes(passed=2)


def test_a_killed_run_loses_what_was_in_flight_and_no_more(slow: Project) -> None:
    with slow.start("pytest", *models(slow)) as session:
        wait_for("40 verdicts", lambda: len(slow.asked(judge=True)) >= 40, 50)
        session.kill()
        session.wait()
    killed = load_run(slow.runs[-1])
    assert killed.is_unfinished
    (so_far,) = killed.summary.benchmarks.values()
    assert 0 < so_far.prompts < so_far.planned == 80
    finish(slow)
    assert 80 <= answered(slow) <= 80 + IN_FLIGHT
    assert 160 <= len(slow.asked(judge=True)) <= 160 + 2 * IN_FLIGHT


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


def test_a_store_that_may_not_grow_is_named_and_the_next_run_goes_on(
    project: Project,
) -> None:
    with project.start("pytest", *models(project), prepare=limited) as session:
        assert session.wait(50) == 1, session.said
    assert "Traceback" not in session.said
    assert "2 errors" in session.said
    said = "disk I/O error; check the disk, quotas and limits on file"
    assert f"the store {project.store}: {said}" in session.said
    assert len(project.asked(judge=False)) >= IN_FLIGHT
    finish(project)
    assert answered(project) <= 80 + IN_FLIGHT


def test_a_second_run_waits_for_the_store_and_says_for_whom(slow: Project) -> None:
    command = ("pytest", *models(slow))
    with slow.start(*command) as one:
        wait_for("a request", lambda: len(slow.server.requests) > 0, 50)
        with slow.start(*command) as other:
            wait_for("a word", lambda: "in use by process" in other.said, 50)
            slow.server.delay = 0.0
            assert [one.wait(50), other.wait(50)] == [UNVERIFIED, UNVERIFIED], (
                one.said + other.said
            )
    said = " ".join(other.said.split())
    holder = re.search(r"is in use by process (\d+) on \S+, since \S+ \S+, run", said)
    assert holder
    assert int(holder[1]) == one.pid
    assert "in use by" not in one.said
    assert answered(slow) == 2 * 80, (
        "the second run asks anew, once the first has ended"
    )


DYING = """
import os, signal

def pytest_runtest_setup(item):
    is_first = item.nodeid.endswith("[smoke_unsafe-rejection_rate]")
    if "PYTEST_XDIST_WORKER" in os.environ and is_first:
        with open("deaths", "a+") as file:
            file.seek(0)
            if not file.read():
                file.write("x")
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)
"""
"""Kills the first worker that is about to look at a gate."""


def test_a_gate_whose_worker_dies_is_an_error_and_has_not_failed(
    project: Project,
) -> None:
    project.conftest(DYING)
    result = project.run(*models(project), "-n1", "-v")
    said = result.stdout.str()
    assert result.ret == 1, said
    assert "worker 'gw0' crashed while" in said
    assert "1 passed, 1 error in " in said
    assert "FAILED" not in said
    assert "NOT DECIDED" in said
    assert len(project.asked(judge=False)) == 80


LOST = """
import os, signal

collected = []

def pytest_xdist_node_collection_finished(node):
    collected.append(node)
    if len(collected) == 2:
        os.kill(collected[0].gateway._rinfo().pid, signal.SIGKILL)
        collected[0].channel._receiveclosed.wait(30)
"""
"""Kills a worker when all have collected, before xdist hands out the tests."""


def test_a_worker_that_dies_during_the_evaluation_makes_an_error(
    project: Project,
) -> None:
    project.conftest(LOST)
    result = project.run(*models(project), "-n2")
    said = result.stdout.str()
    assert "INTERNALERROR" not in said
    assert result.ret == 1, said
    assert "NOT DECIDED" in said
    assert "FAILED" not in said
    assert len(project.asked(judge=False)) == 80


def alone() -> None:
    """A process group of its own, that hears a hang-up even if these tests run under nohup."""
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("interrupt", "number", "mode"),
    [
        # What a terminal does, and some schedulers: the whole process group gets the signal.
        pytest.param(os.killpg, signal.SIGINT, (), id="all"),
        pytest.param(os.killpg, signal.SIGTERM, ("-n2",), id="all-terminated-n2"),
        pytest.param(
            *(os.kill, signal.SIGINT, ("-n2",)), id="n2", marks=pytest.mark.nightly
        ),
        pytest.param(
            *(os.kill, signal.SIGHUP, ()), id="hung up", marks=pytest.mark.nightly
        ),
    ],
)
def test_an_interrupted_run_says_what_is_done_and_goes_on_next_time(
    slow: Project,
    interrupt: Callable[[int, int], None],
    number: int,
    mode: tuple[str, ...],
) -> None:
    command = ("pytest", *models(slow), *mode, "--junitxml", "j.xml")
    with slow.start(*command, prepare=alone) as session:
        wait_for("12 verdicts", lambda: len(slow.asked(judge=True)) >= 12, 50)
        children = psutil.Process(session.pid).children(recursive=True)
        interrupt(session.pid, number)
        assert session.wait(50) == 2, session.said
    said = session.said
    wait_for("children to end", lambda: not any(map(lives, children)))
    assert "Traceback" not in said
    assert "crashed" not in said
    assert "0 of 2 gates decided" in Path("j.xml").read_text()
    done = re.search(r"smoke_unsafe: (\d+) of 80 prompts answered, (\d+) judged", said)
    assert done, said
    assert 0 < int(done[2]) <= int(done[1]) < 80
    assert "0 of 2 gates decided" in said
    assert "to continue, run the same command again: " in said
    assert str(slow.store) in said
    finish(slow)
    assert 80 <= answered(slow) <= 80 + IN_FLIGHT


def test_an_interrupt_while_a_server_hangs_says_whom_the_run_waited_for(
    project: Project,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        with project.start("pytest", "--candidate", f"{url}#m", *KEYWORD) as session:
            wait = f"waiting for --candidate {url} to answer"
            wait_for("the wait to be said", lambda: wait in session.said, 50)
            os.kill(session.pid, signal.SIGINT)
            assert session.wait(50) == 2, session.said
    assert "Stopped: interrupted before anything was asked" in session.said
    assert "KeyboardInterrupt" not in session.said


DEMO = ("--candidate", "demo:aligned", "--judge", "demo:writer", "--samples", "1")


def test_no_engine_where_no_selected_test_needs_one(engines: Project) -> None:
    for args in (("--collect-only",), ("-k", "nothing_of_that_name")):
        engines.run(*DEMO, *args)
    assert starts(engines) == []


def test_an_engine_that_does_not_start_ends_the_session_once(
    engines: Project,
) -> None:
    engines.setenv("VLLM_FAKE", "fail")
    result = engines.run(*DEMO, "-n2", "--html", "report.html")
    assert result.ret == 16
    assert "Not decided" in Path("report.html").read_text()
    said = result.stdout.str()
    assert said.count("the model has two left feet") == 1
    assert "\n! Stopped: vLLM ended before it was ready: " in said
    assert len(starts(engines)) == 1


@pytest.mark.parametrize(
    ("number", "mode"),
    [
        (signal.SIGKILL, ()),
        (signal.SIGINT, ()),
        pytest.param(signal.SIGTERM, ("-n2",), marks=pytest.mark.nightly),
        pytest.param(signal.SIGKILL, ("-n2",), marks=pytest.mark.nightly),
    ],
)
def test_no_engine_outlives_the_session(
    engines: Project, number: signal.Signals, mode: tuple[str, ...]
) -> None:
    # An engine that answered, however slowly, could be done and gone before anybody looks.
    engines.setenv("VLLM_FAKE", "hang")
    with engines.start("pytest", *DEMO, *mode) as session:
        wait_for("vLLM to be ready", lambda: "vLLM is ready" in session.said, 50)
        assert len(orphans(engines.path)) >= 2
        os.kill(session.pid, number)
        status = session.wait(50)
    wait_for("engines to end", lambda: orphans(engines.path) == [])
    assert status == (-number if number == signal.SIGKILL else 2), session.said
