"""Whose engine a model has, and which key goes to which server."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from refusal_checks.core.errors import (
    EngineStartError,
    ModelError,
)
from refusal_checks.core.sampling import JudgeSampling
from refusal_checks.core.settings import Limits, RequestPace
from refusal_checks.engines import placement, pool, process, vllm
from refusal_checks.engines.placement import (
    UNKNOWN,
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
from tests.unit.engines.served import ALIGNED, JUDGE, OTHER


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
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done to engines, which are ready as soon as they are looked at; no process starts."""
    done: list[str] = []

    def note(what: str) -> Callable[..., bool]:
        def step(own: process.EngineProcess, *_: object) -> bool:
            done.append(f"{what} {own.spec.model}")
            return True

        return step

    for method, what in (("launch", "launch"), ("is_ready", "ready")):
        monkeypatch.setattr(process.EngineProcess, method, note(what))
    return done


GPU = Devices("gpu", ("0",), 80.0)
ALONE = ["launch model", "ready model", "launch other", "ready other"]
AT_ONCE = ["launch model", "launch other", "ready model", "ready other"]


@pytest.mark.parametrize(
    ("cpu", "here", "weights", "expected"),
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
    steps: list[str],
    cpu: bool,
    here: Devices,
    weights: float | None,
    expected: list[str],
) -> None:
    monkeypatch.setattr(placement, "gpus", lambda: here)
    memory = Devices("cpu", ("0", "1"), 64.0)  # whatever this machine has free
    monkeypatch.setattr(placement, "cpu", lambda: memory)
    monkeypatch.setattr(pool, "weights_gib", lambda model, *_: weights)
    monkeypatch.setattr(vllm, "runs_on_cpu", lambda: cpu)
    engines(tmp_path, ALIGNED, OTHER).start(print)
    assert steps == expected


@pytest.mark.usefixtures("steps")
def test_an_engine_that_ends_is_noticed_while_another_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_ready(own: process.EngineProcess, *_: object) -> bool:
        if own.spec.model == "other":
            raise EngineStartError("other ended")
        return False

    monkeypatch.setattr(vllm, "runs_on_cpu", lambda: True)
    monkeypatch.setattr(process.EngineProcess, "is_ready", is_ready)
    with pytest.raises(EngineStartError, match="other ended"):
        engines(tmp_path, ALIGNED, OTHER).start(print)


@pytest.mark.parametrize("cpu", [True, False])
def test_a_candidate_s_engine_is_ready_though_the_judge_s_still_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpu: bool
) -> None:
    monkeypatch.setattr(vllm, "runs_on_cpu", lambda: cpu)
    found = engines(tmp_path, ALIGNED, OTHER)

    async def is_ready(*models: Served) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(found.wait_until_ready(models or None), 0.1)
            return True
        return False

    async def look() -> None:
        assert not await is_ready(ALIGNED), "it has not begun to start"
        candidate, judge = found._placed
        found._started.append(candidate)
        # The memory of a GPU is measured while the judge's loads.
        assert await is_ready(ALIGNED) is cpu
        assert not await is_ready()
        found._started.append(judge)
        assert await is_ready()

    asyncio.run(look())


def test_no_engine_starts_once_all_are_closed(tmp_path: Path, steps: list[str]) -> None:
    found = engines(tmp_path, ALIGNED, Rule("keyword"))
    found.close()
    with pytest.raises(EngineStartError, match="no engine is started"):
        found.start(print)
    assert not steps


def test_an_engine_that_is_launched_while_all_are_closed_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: list[str]
) -> None:
    launching, go_on = threading.Event(), threading.Event()
    found = engines(tmp_path, ALIGNED, Rule("keyword"))

    def launch(own: process.EngineProcess) -> None:
        launching.set()
        go_on.wait(30)
        steps.append("launch")

    def stop(own: process.EngineProcess) -> None:
        if launching.is_set():
            steps.append("stop")

    monkeypatch.setattr(process.EngineProcess, "launch", launch)
    monkeypatch.setattr(process.EngineProcess, "stop", stop)
    starting = threading.Thread(target=found.start, args=(print,))
    closing = threading.Thread(target=found.close)
    starting.start()
    assert launching.wait(30)
    closing.start()
    closing.join(0.1)
    go_on.set()
    starting.join()
    closing.join()
    assert [step for step in steps if "ready" not in step] == ["launch", "stop"]


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
    clients = [connect(found, ALIGNED, option="--candidate")]
    clients += [connect(found, judge) for judge in (JUDGE, OTHER)]
    for client in clients:
        client.usage.retries = 2
        client.usage.count({"usage": {"prompt_tokens": 10, "completion_tokens": 4}})
    account = found.usage_report()
    one = Usage(requests=1, retries=2, prompt=10, output=4)
    assert account["tokens"] == {"candidate": asdict(one), "judge": asdict(one + one)}
    assert account["servers"] == {}, "our own engines take all fields"
    clients[-1].left_out.add("seed")
    (shown,) = found.usage_report()["servers"]["judge"].values()
    assert shown == {"left_out": ["seed"], "answers_as": ""}


def test_a_missing_engine_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm, "is_installed", lambda: False)
    with pytest.raises(ModelError, match="install it: `make engine` in the checkout"):
        engines(tmp_path, ALIGNED, Rule("keyword"))
