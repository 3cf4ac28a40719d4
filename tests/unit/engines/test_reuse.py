"""Which engines go on for the next candidate."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.core.errors import EngineFaultError
from refusal_checks.core.sampling import JudgeSampling, Sampling
from refusal_checks.core.settings import Limits
from refusal_checks.engines import devices, process, vllm
from refusal_checks.engines.devices import Devices
from refusal_checks.engines.engine import EngineSpec
from refusal_checks.engines.placement import PlacementRequest
from refusal_checks.engines.pool import Engines, PoolSettings, Shared
from refusal_checks.engines.vllm import Vllm
from refusal_checks.models import weights as weight_sizes
from refusal_checks.models.names import Rule, Served
from tests.unit.engines.served import ALIGNED, JUDGE, OTHER

NEXT = Served("next", "next", ())


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Vllm, "is_installed", lambda self: True)


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens to engines that only seem to run."""
    found: list[str] = []
    running: set[process.EngineProcess] = set()

    def launch(own: process.EngineProcess) -> None:
        running.add(own)
        found.append(f"+{own.spec.model}")

    def stop(own: process.EngineProcess) -> None:
        own.is_asleep = False
        if own in running:
            running.discard(own)
            found.append(f"-{own.spec.model}")

    monkeypatch.setattr(process.EngineProcess, "launch", launch)
    monkeypatch.setattr(process.EngineProcess, "stop", stop)
    monkeypatch.setattr(process.EngineProcess, "is_running", lambda own: own in running)
    monkeypatch.setattr(process.EngineProcess, "is_ready", lambda own, *_: True)
    return found


@pytest.fixture
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with twelve cores and room for all."""
    here = Devices("cpu", tuple(map(str, range(12))), 24.0)
    monkeypatch.setattr(devices, "cpu", lambda: here)


def settings(candidate: Any, *judges: Any) -> PoolSettings:
    return PoolSettings(candidate, judges, Limits(), Sampling(), JudgeSampling())


def taking_turns(
    folder: Path, judge: Served, second: PoolSettings
) -> tuple[Engines, Engines, Shared]:
    """A run with this judge whose engines work, the next one, and what they share."""
    shared: Shared = {}
    one = Engines(settings(ALIGNED, judge), folder / "one", shared)
    one.place([ALIGNED, judge])
    one.start(print)
    return one, Engines(second, folder / "two", shared), shared


@pytest.mark.parametrize(
    ("candidate", "happens"),
    [
        (replace(ALIGNED, name="demo:regressed"), []),
        (OTHER, ["-model", "+other"]),
        (Rule("keyword"), ["-model"]),
    ],
)
def test_engines_go_on_for_the_next_run_if_it_needs_the_same(
    tmp_path: Path, events: list[str], candidate: Any, happens: list[str]
) -> None:
    one, two, shared = taking_turns(tmp_path, JUDGE, settings(candidate))
    two.place([candidate], one)
    assert events == ["+model", *happens[:1]], "else it makes room"
    two.start(print)
    assert events == ["+model", *happens]
    two.require_running()
    aligned = shared[EngineSpec.of(ALIGNED)]
    assert aligned.log.parent.name == "one"
    two.close()
    assert sum(1 if event[0] == "+" else -1 for event in events) == 0
    three = Engines(settings(ALIGNED, JUDGE), tmp_path / "three", shared)
    three.start(print)
    assert aligned.log.parent.name == "three", "it has started it"


@pytest.mark.usefixtures("roomy")
@pytest.mark.parametrize(
    ("weights", "args", "happens"),
    [
        ({}, (), ["-model", "+next"]),
        ({"next": 2.0}, (), ["-model", "-other", "+next", "+other"]),
        ({}, ("--data-parallel-size", "2"), ["-model", "-other", "+next", "+other"]),
    ],
)
def test_the_judge_s_engine_goes_on_if_the_next_candidate_needs_as_much(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    events: list[str],
    weights: dict[str, float],
    args: tuple[str, ...],
    happens: list[str],
) -> None:
    monkeypatch.setattr(
        weight_sizes, "weights_gib", lambda model, *_: weights.get(model, 1.0)
    )
    candidate = Served("next", "next", args)
    one, two, _ = taking_turns(tmp_path, OTHER, settings(candidate, OTHER))
    placement = two.place([candidate, OTHER], one)
    assert "next" in placement.why
    assert "model" not in placement.why
    two.start(print)
    assert events[2:] == happens
    two.require_running()
    one.close()


def on_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
    sizes: dict[str, float],
    free: float = 100.0,
    gpus: tuple[str, ...] = ("0",),
) -> None:
    """A machine with GPUs of 48 GiB, so much free memory of its own, and models of these sizes."""
    monkeypatch.setattr(vllm, "runs_on_cpu", lambda: False)
    monkeypatch.setattr(devices, "gpus", lambda: Devices("gpu", gpus, 48.0))
    monkeypatch.setattr(devices, "cpu", lambda: Devices("cpu", ("0",), free))
    monkeypatch.setattr(weight_sizes, "weights_gib", lambda model, *_: sizes[model])


LARGE = {"model": 30.0, "next": 30.0, "other": 20.0}
SLEPT = ["+model", "-model", "+other", "~other", "+next", "-next", "!other"]
AGAIN = ["-other", "+next", "-next", "+other"]


@pytest.mark.parametrize(
    ("sizes", "free", "candidates", "fault", "happens"),
    [
        (LARGE, 100.0, 2, "", SLEPT),
        # It starts again: nothing follows, there is no room, or it does not do as it is told.
        (LARGE, 100.0, 1, "", AGAIN),
        (LARGE, 23.0, 2, "", AGAIN),
        (LARGE, 100.0, 2, "sleep", ["~other", *AGAIN]),
        (LARGE, 100.0, 2, "wake", ["~other", "+next", "-next", "!other", "-other", "+other"]),
        # The next candidate has room beside it.
        ({**LARGE, "next": 2.0}, 100.0, 2, "", ["~other", "-other", "+next", "+other"]),
    ],
)  # fmt: skip
def test_in_turns_on_a_gpu_the_judge_s_engine_sleeps_until_its_turn(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    events: list[str],
    sizes: dict[str, float],
    free: float,
    candidates: int,
    fault: str,
    happens: list[str],
) -> None:
    on_a_gpu(monkeypatch, sizes, free)
    take_turns(tmp_path, monkeypatch, events, candidates, fault)
    assert events == (happens if happens == SLEPT else [*SLEPT[:3], *happens])


@pytest.mark.parametrize(
    ("used", "size", "args"),
    [
        (0.1, 42.0, ()),
        (0.1, 40.0, ()),
        (0.04, 30.0, ("--gpu-memory-utilization", "0.97")),
    ],
)
def test_what_a_sleeping_judge_leaves_on_the_gpu_refuses_no_candidate(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    events: list[str],
    used: float,
    size: float,
    args: tuple[str, ...],
) -> None:
    on_a_gpu(monkeypatch, {"model": 30.0, "next": size, "other": 20.0})

    def gpus() -> Devices:
        is_asleep = events[-1:] == ["~other"]
        return Devices("gpu", ("0",), 48.0, used=used if is_asleep else 0.0)

    monkeypatch.setattr(devices, "gpus", gpus)
    take_turns(tmp_path, monkeypatch, events, following=replace(NEXT, args=args))
    assert events == [*SLEPT[:3], "~other", *AGAIN]


def test_a_judge_in_copies_does_not_sleep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: list[str]
) -> None:
    sizes = {"model": 60.0, "next": 60.0, "other": 20.0}
    on_a_gpu(monkeypatch, sizes, gpus=("0", "1"))
    judge = take_turns(tmp_path, monkeypatch, events)
    assert judge.place.copies == 2
    assert events == [*SLEPT[:3], *AGAIN]


def take_turns(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    events: list[str],
    candidates: int = 2,
    fault: str = "",
    following: Served = NEXT,
) -> process.EngineProcess:
    """Run two candidates with the same judge on a GPU; the judge's engine, as it was."""

    def tell(own: process.EngineProcess, path: str, is_asleep: bool) -> None:
        events.append(f"{'~' if is_asleep else '!'}{own.spec.model}")
        if fault and fault in path:
            raise EngineFaultError(path)

    monkeypatch.setattr(process.EngineProcess, "_tell", tell)
    monkeypatch.setattr(process.EngineProcess, "_probe", lambda own: [-0.5])
    request = PlacementRequest(candidates=candidates)
    shared: Shared = {}
    runs = []
    for model in (ALIGNED, following):
        run = replace(settings(model, OTHER), placement=request)
        runs.append((model, Engines(run, folder / model.path, shared)))
    before = None
    for model, engines in runs:
        engines.place([model, OTHER], before)
        for turn in range(engines.placement.turns):
            engines.start(print, turn)
            engines.require_running()
        before = engines
    assert before is not None
    happened = list(events)
    before.close()
    events[:] = happened
    judge = shared[EngineSpec.of(OTHER)]
    assert not judge.is_asleep
    return judge


@pytest.mark.usefixtures("roomy")
def test_an_engine_that_ends_after_it_went_on_starts_again_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: list[str]
) -> None:
    monkeypatch.setattr(weight_sizes, "weights_gib", lambda model, *_: 1.0)
    monkeypatch.setattr(vllm, "runs_on_cpu", lambda: True)
    one, two, shared = taking_turns(tmp_path, OTHER, settings(NEXT, OTHER))
    two.place([NEXT, OTHER], one)
    two.start(print)
    judge = shared[EngineSpec.of(OTHER)]
    place, said = judge.place, list[str]()

    async def work() -> None:
        if not said:
            judge.stop()
            raise ConnectionError("it is gone")

    asyncio.run(two.guard(work, said.append))
    assert events[-2:] == ["-other", "+other"]
    assert judge.place == place
    assert judge.log.parent.name == "two", "it has started it"
    (line,) = said
    assert line.startswith(
        "vLLM ended during the run and was started again, once: other"
    )
