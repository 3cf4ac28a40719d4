"""The life of an engine's processes, with a small server in vLLM's place."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from refusal_checks.core.errors import (
    EngineDiedError,
    EngineStartError,
)
from refusal_checks.engines import engine_transport, process, supervisor
from refusal_checks.engines.engine_transport import EngineTransport
from refusal_checks.engines.placement import Assignment
from refusal_checks.engines.process import EngineProcess
from refusal_checks.engines.vllm import EngineSpec
from refusal_checks.models.client import server_errors
from refusal_checks.models.client.client import CHAT
from refusal_checks.models.client.server_errors import TransientError
from tests.support.fake_server import FakeServer
from tests.support.processes import wait_until
from tests.unit.engines.served import serving


def sleeping(tag: str) -> Callable[[int], list[str]]:
    return lambda port: [sys.executable, "-c", "import time; time.sleep(600)", tag]


def running(tag: str) -> list[psutil.Process]:
    """The live processes that carry a tag in their command line."""
    found = []
    for each in psutil.process_iter(["cmdline", "status"]):
        dead = each.info["status"] == psutil.STATUS_ZOMBIE
        if not dead and tag in (each.info["cmdline"] or []):
            found.append(each)
    return found


@pytest.fixture
def tag(request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"engine-test-{os.getpid()}-{request.node.name}"
    yield name
    for each in running(name):
        each.kill()


Argv = Callable[[int], list[str]]
Make = Callable[..., EngineProcess]


class Program(EngineProcess):
    """An engine with another command than its own, given the port."""

    def __init__(self, log: Path, argv: Argv) -> None:
        super().__init__(EngineSpec("some/model"), log)
        self.argv = argv

    @property
    def command(self) -> list[str]:
        return self.argv(self.port)


@pytest.fixture
def make(tag: str, tmp_path: Path) -> Iterator[Make]:
    made: list[EngineProcess] = []

    def new(argv: Argv | None = None) -> EngineProcess:
        made.append(Program(tmp_path / "engine.log", argv or serving(tag)))
        return made[-1]

    yield new
    for server in made:
        server.stop()


def test_starts_reports_and_stops_with_all_its_processes(tag: str, make: Make) -> None:
    server = make()
    said: list[str] = []
    server.launch()
    server.wait_ready(20, said.append)
    assert server.is_running()
    assert said[-1].startswith("vLLM is ready after")
    assert len(running(tag)) >= 2
    server.stop()
    server.stop()
    assert not server.is_running()
    assert running(tag) == []


def test_a_start_that_fails_names_command_status_log_and_last_lines(
    make: Make, tmp_path: Path
) -> None:
    code = "import sys; print('\\n'.join(f'line {i}' for i in range(99))); sys.exit(7)"
    server = make(lambda port: [sys.executable, "-c", code])
    server.launch()
    with pytest.raises(EngineStartError) as caught:
        server.wait_ready(20)
    message = str(caught.value)
    words = ("some/model", f"command: {sys.executable} -c", "exit status: 7", "line 98")
    for word in (*words, str(tmp_path / "engine.log")):
        assert word in message
    assert "line 10" not in message


def test_a_start_that_takes_too_long_or_that_another_thread_ends_says_so(
    tag: str, make: Make
) -> None:
    server = make(sleeping(tag))
    server.launch()
    with pytest.raises(EngineStartError, match="not ready after 0 s"):
        server.wait_ready(0.1)
    assert running(tag) == []
    server.launch()
    threading.Timer(0.1, server.stop).start()
    with pytest.raises(EngineStartError, match="ended before it was ready"):
        server.wait_ready(60)


def test_whoever_took_the_port_gets_no_key_unless_a_program_may_use_a_container(
    tag: str, make: Make
) -> None:
    server = make(sleeping(tag))
    with FakeServer() as impostor:
        server.port = impostor.port
        server.launch()
        with pytest.raises(
            EngineStartError, match=r"not get its port.*run the same command again"
        ):
            server.wait_ready(20)
        assert running(tag) == []
        assert impostor.authorizations == []
        server.spec = replace(server.spec, program=("docker",))
        server.launch()
        server.wait_ready(20)


def test_an_engine_that_dies_leaves_nothing_and_starts_again_at_its_address(
    tag: str, make: Make
) -> None:
    server = make()
    address = server.url, server.api_key
    server.launch()
    server.wait_ready(20)
    next(
        p
        for p in running(tag)
        if "refusal_checks.engines.supervisor" not in p.cmdline()
    ).kill()
    assert wait_until(lambda: not server.is_running())
    with pytest.raises(EngineDiedError, match="ended during the run"):
        server.require_running()
    assert wait_until(lambda: running(tag) == [])
    server.launch()
    server.wait_ready(20)
    assert (server.url, server.api_key) == address


CORE = """
import subprocess, sys, time
name = "VLLM::EngineCore_DP1"
subprocess.Popen([name, "-c", "import time; time.sleep(600)", "{tag}"], executable=sys.executable)
time.sleep(600)
"""


def cores(tag: str) -> list[psutil.Process]:
    """Those of the running processes that call themselves engine processes."""
    return [
        process
        for process in running(tag)
        if "EngineCore" in process.info["cmdline"][0]
    ]


@pytest.mark.slow
def test_a_server_ends_with_its_engine_process(tag: str, make: Make) -> None:
    server = make(lambda port: [sys.executable, "-c", CORE.format(tag=tag), tag])
    server.launch()
    assert wait_until(lambda: bool(cores(tag)))
    time.sleep(1.5 * supervisor.WATCH)  # so that the supervisor has seen it, too
    for each in cores(tag):
        each.kill()
    assert wait_until(lambda: not server.is_running())
    assert wait_until(lambda: running(tag) == [])
    assert "a process VLLM::EngineCore has ended" in server.log.read_text()


OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory."
START = "RuntimeError: Engine core initialization failed. See root cause above."
DEATH = (
    "EngineDeadError: EngineCore encountered an issue. "
    "See stack trace (above) for the root cause."
)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("api_server.py: error: unrecognized arguments: --foo", ""),
        (f"(APIServer pid=7) {OUT_OF_MEMORY}", OUT_OF_MEMORY),
        ("all is well", "ValueError: no room"),
        ("WARNING 11-29 19:40 may cause OSError: [Errno 24]", "ValueError: no room"),
    ],
)
@pytest.mark.parametrize("end", [START, DEATH])
def test_a_message_quotes_the_last_error_of_the_log(
    tmp_path: Path, line: str, told: str, end: str
) -> None:
    """On a GPU, vLLM's engine core is a process of its own, and its server only says so."""
    api = [f'(APIServer pid=1)   File "/vllm/{n}.py", in run' for n in range(40)]
    server = EngineProcess(EngineSpec("m"), tmp_path / "log")
    server.log.write_text("\n".join(["ValueError: no room", line, *api, end, "bye"]))
    said = server.report("ended").splitlines()
    assert said[:2] == ["vLLM ended: m", f"last error in its log: {told or line}"]
    assert said[-2:] == [f"  {end}", "  bye"]


def test_an_engine_has_its_cores_and_a_private_folder_which_goes_with_it(
    tag: str, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    core = min(os.sched_getaffinity(0))
    code = (
        "import os, tempfile, time; folder = tempfile.gettempdir();"
        "print(os.sched_getaffinity(0), oct(os.stat(folder).st_mode)[-3:], flush=True);"
        "open(os.path.join(folder, 'socket'), 'w'); time.sleep(600)"
    )
    server = make(lambda port: [sys.executable, "-c", code, tag])
    server.place = Assignment(cores=(core,))
    server.launch()
    assert wait_until(lambda: bool(list(tmp_path.glob("vllm-*/socket"))))
    assert server.log.read_text().strip() == f"{{{core}}} 700"
    server.stop()
    assert not list(tmp_path.glob("vllm-*"))


BODY = {
    "model": "m",
    "messages": [{"role": "user", "content": "hello"}],
    "n": 1,
    "seed": 0,
}


class Mortal(process.EngineProcess):
    """A process whose server is a fake one, and which lives as long as it is told."""

    looks = 10**6

    def is_running(self) -> bool:
        self.looks -= 1
        return self.looks > 0


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mortal:
    monkeypatch.setattr(engine_transport, "SETTLE", 0.3)
    monkeypatch.setattr(server_errors, "WAIT_INITIAL", 0.01)
    (tmp_path / "log").touch()
    return Mortal(EngineSpec("m"), tmp_path / "log")


def post(engine: Mortal, server: FakeServer) -> Any:
    engine.port, engine.api_key = server.port, "key"

    async def post() -> Any:
        async with EngineTransport(engine, 60.0) as way:
            return await way.post(CHAT, BODY)

    return asyncio.run(post())


@pytest.mark.parametrize(
    ("said", "looks", "fault", "asked"),
    [
        ("abort", 10**6, TransientError, True),
        ("None", 10**6, TransientError, True),  # a reason that no healthy engine gives
        ("abort", 3, EngineDiedError, True),
        ("abort", 0, EngineDiedError, False),
    ],
)
def test_an_answer_broken_off_may_be_the_end_of_an_engine_which_is_then_not_asked(
    engine: Mortal, said: str, looks: int, fault: type[Exception], asked: bool
) -> None:
    engine.looks = looks
    with FakeServer(finish_reason=said) as server:
        with pytest.raises(fault):
            post(engine, server)
        assert bool(server.authorizations) is asked
