"""Whose engine a model has, and which key goes to which server."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from refusal_checks.core.errors import (
    EngineDiedError,
    EngineStartError,
    ModelError,
)
from refusal_checks.core.sampling import JudgeSampling
from refusal_checks.core.settings import Limits, RequestPace
from refusal_checks.engines import placement, pool, process, vllm
from refusal_checks.engines.placement import (
    UNKNOWN,
    Assignment,
    Devices,
    PlacementRequest,
)
from refusal_checks.engines.pool import Engines
from refusal_checks.models.client.client import Client
from refusal_checks.models.client.usage import Usage
from refusal_checks.models.model_names import (
    Attached,
    CandidateModel,
    JudgeModel,
    Rule,
    Served,
)
from tests.support.fake_server import FakeServer
from tests.unit.engines.served import ALIGNED, JUDGE, OTHER, serving


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm, "is_installed", lambda: True)


def engines(folder: Path, candidate: CandidateModel, *judges: JudgeModel) -> Engines:
    return Engines(candidate, judges, folder, Limits(), PlacementRequest(), print)


def connect(
    engines: Engines,
    model: Served | Attached,
    number: int = 1,
    option: str = "--judge",
) -> Client:
    return engines.connect(model, option, JudgeSampling(), RequestPace(), number)


def test_one_engine_for_all_that_name_the_same_model_and_arguments(
    tmp_path: Path,
) -> None:
    found = engines(tmp_path, ALIGNED, JUDGE, Rule("keyword"), OTHER)
    urls = [connect(found, model).url for model in (ALIGNED, JUDGE, OTHER)]
    assert urls[0] == urls[1] != urls[2]


def test_a_further_judge_s_server_has_its_own_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFUSAL_CHECKS_JUDGE_2_API_KEY", "second")
    with FakeServer(api_key="second") as server:
        judge = Attached(server.url, server.url, "fake")
        found = engines(tmp_path, ALIGNED, Rule("keyword"), judge)
        assert connect(found, judge, 2).model == "fake"
        with pytest.raises(ModelError, match="401"):
            connect(found, judge, 1)


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engines]:
    """An engine for the candidate that runs, without vLLM."""
    monkeypatch.setattr(
        vllm, "command", lambda spec, port, place: serving("pool")(port)
    )
    found = engines(tmp_path, ALIGNED, Rule("keyword"))
    found.start(print)
    yield found
    found.close()


GPU = Devices("gpu", ("0",), 80.0)
ALONE = ["launch model", "ready model", "launch other", "ready other"]
AT_ONCE = ["launch model", "launch other", "ready model", "ready other"]


@pytest.mark.parametrize(
    ("cpu", "here", "weights", "steps"),
    [
        (False, UNKNOWN, 1.0, ALONE),
        (False, GPU, None, ALONE),
        (False, GPU, 1.0, AT_ONCE),
        (True, UNKNOWN, 1.0, AT_ONCE),
    ],
)
def test_engines_that_share_a_gpu_start_at_once_if_their_caches_are_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cpu: bool,
    here: Devices,
    weights: float | None,
    steps: list[str],
) -> None:
    monkeypatch.setattr(placement, "gpus", lambda: here)
    memory = Devices("cpu", ("0", "1"), 64.0)  # whatever this machine has free
    monkeypatch.setattr(placement, "cpu", lambda: memory)
    monkeypatch.setattr(pool, "weights_gib", lambda model, *_: weights)
    done: list[str] = []
    ready: set[str] = set()

    def is_ready(own: process.EngineProcess, *_: object) -> bool:
        done.append(f"ready {own.spec.model}")
        ready.add(own.spec.model)
        return True

    def launch(own: process.EngineProcess) -> None:
        done.append(f"launch {own.spec.model}")
        own.log.touch()

    monkeypatch.setattr(vllm, "runs_on_cpu", lambda: cpu)
    monkeypatch.setattr(process.EngineProcess, "launch", launch)
    monkeypatch.setattr(process.EngineProcess, "is_ready", is_ready)
    monkeypatch.setattr(
        process.EngineProcess, "is_running", lambda own: own.spec.model in ready
    )
    found = engines(tmp_path, ALIGNED, OTHER)
    found.start(print)
    assert done == steps

    async def work() -> None:
        ready.clear()
        raise ConnectionError("both are gone")

    said: list[str] = []
    with pytest.raises(EngineDiedError, match="for the second time"):
        asyncio.run(found.run_with_restart(work, said.append))
    assert done == steps * 2
    for line, model in zip(said, ("model", "other"), strict=True):
        assert line.startswith(
            f"vLLM ended during the run and was started again, once: {model};"
        )


@pytest.mark.parametrize(("second", "steps"), [("1", AT_ONCE), ("0", ALONE)])
def test_judges_of_a_turn_start_at_once_on_gpus_of_their_own(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    second: str,
    steps: list[str],
) -> None:
    monkeypatch.setattr(vllm, "runs_on_cpu", lambda: False)
    monkeypatch.setattr(placement, "gpus", lambda: GPU)
    done: list[str] = []

    def is_ready(own: process.EngineProcess, *_: object) -> bool:
        done.append(f"ready {own.spec.model}")
        return True

    def launch(own: process.EngineProcess) -> None:
        done.append(f"launch {own.spec.model}")

    monkeypatch.setattr(process.EngineProcess, "launch", launch)
    monkeypatch.setattr(process.EngineProcess, "is_ready", is_ready)
    found = engines(tmp_path, ALIGNED, OTHER)
    for own, gpu in zip(found._placed, ("0", second), strict=True):
        own.place = Assignment(devices=(gpu,), loads_alone=second == "0", turn=1)
    found.start(print, turn=1)
    assert done == steps


def test_an_engine_that_ends_is_noticed_while_another_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_ready(own: process.EngineProcess, *_: object) -> bool:
        if own.spec.model == "other":
            raise EngineStartError("other ended")
        return False

    monkeypatch.setattr(vllm, "runs_on_cpu", lambda: True)
    monkeypatch.setattr(process.EngineProcess, "launch", lambda own: None)
    monkeypatch.setattr(process.EngineProcess, "is_ready", is_ready)
    with pytest.raises(EngineStartError, match="other ended"):
        engines(tmp_path, ALIGNED, OTHER).start(print)


@pytest.mark.parametrize(("cpu", "waits"), [(True, False), (False, True)])
def test_a_candidate_s_engine_is_ready_though_the_judge_s_still_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpu: bool, waits: bool
) -> None:
    may_load = threading.Event()

    def is_ready(own: process.EngineProcess, *_: object) -> bool:
        return own.spec.model == "model" or may_load.is_set()

    monkeypatch.setattr(vllm, "runs_on_cpu", lambda: cpu)
    monkeypatch.setattr(process.EngineProcess, "launch", lambda own: None)
    monkeypatch.setattr(process.EngineProcess, "is_ready", is_ready)
    found = engines(tmp_path, ALIGNED, OTHER)

    async def look() -> None:
        async def is_ready(*models: Served, within: float = 0.3) -> bool:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(found.wait_until_ready(models or None), within)
                return True
            return False

        assert not await is_ready(ALIGNED), "it has not begun to start"
        start = asyncio.create_task(asyncio.to_thread(found.start, print))
        if waits:
            assert not await is_ready(ALIGNED), (
                "while the memory of its GPU is measured"
            )
        else:
            assert await is_ready(ALIGNED, within=20.0)
        assert not await is_ready()
        may_load.set()
        await start
        assert await is_ready(within=20.0)

    asyncio.run(look())


def test_no_engine_starts_once_all_are_closed_from_another_thread(
    running: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping, go_on = threading.Event(), threading.Event()
    stop = process.EngineProcess.stop

    def stop_slowly(own: process.EngineProcess) -> None:
        stop(own)
        if threading.current_thread() is not threading.main_thread():
            stopping.set()
            go_on.wait(30)

    monkeypatch.setattr(process.EngineProcess, "stop", stop_slowly)
    faults: list[BaseException] = []

    def start() -> None:
        try:
            running.start(print)
        except EngineStartError as fault:
            faults.append(fault)

    other = threading.Thread(target=start)
    other.start()
    assert stopping.wait(30)
    running.close()
    go_on.set()
    other.join()
    assert "no engine is started" in str(faults[0])
    with pytest.raises(EngineDiedError):
        next(iter(running._engines.values())).require_running()


def test_engines_end_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    for name in ("ask_to_end", "stop"):
        monkeypatch.setattr(
            process.EngineProcess,
            name,
            lambda own, name=name: done.append(f"{name} {own.spec.model}"),
        )
    engines(tmp_path, ALIGNED, OTHER).close()
    assert done == ["ask_to_end model", "ask_to_end other", "stop model", "stop other"]


def test_each_role_s_requests_are_added_up(tmp_path: Path) -> None:
    found = engines(tmp_path, ALIGNED, JUDGE, OTHER)
    for model, option in (
        (ALIGNED, "--candidate"),
        (JUDGE, "--judge"),
        (OTHER, "--judge"),
    ):
        usage = connect(found, model, option=option).usage
        usage.retries, usage.verdicts = 2, int(option == "--judge")
        usage.count({"usage": {"prompt_tokens": 10, "completion_tokens": 4}})
    account = found.usage_report()
    one = Usage(requests=1, retries=2, prompt=10, output=4)
    assert account["tokens"]["candidate"] == asdict(one)
    assert account["tokens"]["judge"] == asdict(Usage(2, 4, 20, 0, 8, 2))
    assert account["servers"] == {}, "our own engines take all fields"
    judge = connect(found, JUDGE)
    judge.left_out.add("seed")
    (shown,) = found.usage_report()["servers"]["judge"].values()
    assert shown == {"left_out": ["seed"], "answers_as": ""}


def test_a_missing_engine_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm, "is_installed", lambda: False)
    with pytest.raises(ModelError, match="install it: `make engine` in the checkout"):
        engines(tmp_path, ALIGNED, Rule("keyword"))
