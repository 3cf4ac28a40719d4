"""Ctrl-C, SIGTERM and SIGHUP: what is done is said and kept, and no process stays behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import psutil
import pytest

from tests.fake_server import FakeServer
from tests.plugin.conftest import well_behaved
from tests.processes import lives, wait_until

SLOW = ("--samples", "2", "--in-flight", "4", "-k", "smoke_unsafe")


def all_of(session: subprocess.Popen[str], number: int) -> None:
    """What a terminal does, and some schedulers: the whole process group gets the signal."""
    os.killpg(session.pid, number)


def pytest_alone(session: subprocess.Popen[str], number: int) -> None:
    session.send_signal(number)


@pytest.mark.parametrize(
    ("interrupt", "number", "mode"),
    [
        (all_of, signal.SIGINT, ()),
        (pytest_alone, signal.SIGINT, ("-n2",)),
        (all_of, signal.SIGTERM, ("-n2",)),
        (pytest_alone, signal.SIGHUP, ()),
    ],
    ids=["all", "n2", "all-terminated-n2", "hung up"],
)
def test_an_interrupted_run_says_what_is_done_and_goes_on_next_time(
    project: pytest.Pytester,
    interrupt: Callable[[subprocess.Popen[str], int], None],
    number: int,
    mode: tuple[str, ...],
) -> None:
    with FakeServer(well_behaved, delay=0.2) as server:
        models = ("--candidate", f"{server.url}#fake", "--judge", f"{server.url}#fake")
        command = [sys.executable, "-m", "pytest", *models, *SLOW, *mode, "--junitxml", "j.xml"]
        with subprocess.Popen(
            command, cwd=project.path, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as session:
            assert wait_until(lambda: len(server.asked(judge=True)) >= 12, 60)
            started = psutil.Process(session.pid).children(recursive=True)
            interrupt(session, number)
            said = session.communicate()[0]
        assert session.returncode == 2, said
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
        before = len(server.asked(judge=False))
        server.delay = 0.0
        project.runpytest_subprocess(*models, *SLOW, *mode).assert_outcomes(passed=2)
        assert 80 <= len(server.asked(judge=False)) <= 80 + 4
        assert len(server.asked(judge=False)) - before <= 80 - int(done[1]) + 4


def test_a_run_that_cleans_up_after_its_last_verdict_is_complete(
    project: pytest.Pytester, server: FakeServer
) -> None:
    (project.path / "conftest.py").write_text(
        'pytest_plugins = ["refusal_checks.plugin"]\n'
        "import asyncio\n"
        "from refusal_checks.models.client.client import Client\n"
        "async def leave_slowly(self, *exception): await asyncio.sleep(1)\n"
        "Client.__aexit__ = leave_slowly\n"
    )
    models = ("--candidate", f"{server.url}#fake", "--judge", "keyword")
    result = project.runpytest_subprocess(*models, "--samples", "1", "-W", "ignore")
    result.assert_outcomes(passed=3)
    assert "stopped before it was complete" not in result.stdout.str()


def test_an_interrupt_before_the_first_request_ends_the_run_too(
    project: pytest.Pytester, server: FakeServer
) -> None:
    (project.path / "conftest.py").write_text(
        'pytest_plugins = ["refusal_checks.plugin"]\n'
        "import asyncio, os, signal, threading, time\n"
        "run = asyncio.run\n"
        "def run_late(work):\n"
        "    if threading.current_thread().name == 'evaluation':\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        time.sleep(1)\n"
        "    return run(work)\n"
        "asyncio.run = run_late\n"
    )
    models = ("--candidate", f"{server.url}#fake", "--judge", "keyword")
    result = project.runpytest_subprocess(*models)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert server.requests == []
    result.stdout.fnmatch_lines(["*the evaluation was stopped before it was complete*"])


def test_two_interrupts_end_a_run_that_listens_to_nothing(
    project: pytest.Pytester, server: FakeServer
) -> None:
    (project.path / "conftest.py").write_text(
        'pytest_plugins = ["refusal_checks.plugin"]\n'
        "import asyncio, pathlib, re, threading\n"
        "run = asyncio.run\n"
        "def run_for_ever(work):\n"
        "    if threading.current_thread().name == 'evaluation':\n"
        "        pathlib.Path('stuck').touch()\n"
        "        re.match('(a|a)*b', 'a' * 60)  # keeps the interpreter\n"
        "    return run(work)\n"
        "asyncio.run = run_for_ever\n"
    )
    models = ("--candidate", f"{server.url}#fake", "--judge", "keyword")
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *models],
        cwd=project.path,
        text=True,
        start_new_session=True,
    ) as session:
        assert wait_until((project.path / "stuck").exists, 60)
        started = psutil.Process(session.pid).children(recursive=True)
        begun = time.monotonic()
        pytest_alone(session, signal.SIGINT)
        time.sleep(0.3)
        pytest_alone(session, signal.SIGINT)
        session.wait(20)
        assert time.monotonic() - begun < 2.5
        assert wait_until(lambda: not any(map(lives, started)), 5)
