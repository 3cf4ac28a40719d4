"""Which engines go on for the next candidate."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.core.settings import JudgeSampling, Limits, Sampling
from refusal_checks.engines import process
from refusal_checks.engines.base import EngineSpec
from refusal_checks.engines.kinds.vllm import Vllm
from refusal_checks.engines.placement import weights as weight_files
from refusal_checks.engines.pool import Engines, PoolSettings, Shared
from refusal_checks.models.spec import Rule, Served
from tests.unit.engines.served import ALIGNED, JUDGE, OTHER


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
        if own in running:
            running.discard(own)
            found.append(f"-{own.spec.model}")

    monkeypatch.setattr(process.EngineProcess, "launch", launch)
    monkeypatch.setattr(process.EngineProcess, "stop", stop)
    monkeypatch.setattr(process.EngineProcess, "is_running", lambda own: own in running)
    monkeypatch.setattr(process.EngineProcess, "wait_ready", lambda own, *_: None)
    return found


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
    settings = PoolSettings(ALIGNED, (JUDGE,), Limits(), Sampling(), JudgeSampling())
    shared: Shared = {}
    one = Engines(settings, tmp_path / "one", shared)
    two = Engines(replace(settings, candidate=candidate, judges=()), tmp_path / "two", shared)
    one.place([ALIGNED, JUDGE])
    one.start(print)
    two.place([candidate], one)
    assert events == ["+model", *happens[:1]], "else it makes room"
    two.start(print)
    assert events == ["+model", *happens]
    two.require_running()
    aligned = shared[EngineSpec.of(ALIGNED)]
    assert aligned.log.parent.name == "one"
    two.close()
    assert sum(1 if event[0] == "+" else -1 for event in events) == 0
    three = Engines(settings, tmp_path / "three", shared)
    three.start(print)
    assert aligned.log.parent.name == "three", "it has started it"


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
    monkeypatch.setattr(weight_files, "gib", lambda model, *_: weights.get(model, 1.0))
    settings = PoolSettings(ALIGNED, (OTHER,), Limits(), Sampling(), JudgeSampling())
    candidate = Served("next", "next", args)
    shared: Shared = {}
    one = Engines(settings, tmp_path / "one", shared)
    two = Engines(replace(settings, candidate=candidate), tmp_path / "two", shared)
    one.place([ALIGNED, OTHER])
    one.start(print)
    placement = two.place([candidate, OTHER], one)
    assert "next" in placement.why
    assert "model" not in placement.why
    two.start(print)
    assert events[2:] == happens
    two.require_running()
    one.close()


def test_an_engine_that_ends_after_it_went_on_starts_again_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: list[str]
) -> None:
    monkeypatch.setattr(weight_files, "gib", lambda model, *_: 1.0)
    settings = PoolSettings(ALIGNED, (OTHER,), Limits(), Sampling(), JudgeSampling())
    candidate = Served("next", "next", ())
    shared: Shared = {}
    one = Engines(settings, tmp_path / "one", shared)
    two = Engines(replace(settings, candidate=candidate), tmp_path / "two", shared)
    one.place([ALIGNED, OTHER])
    one.start(print)
    two.place([candidate, OTHER], one)
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
    assert line.startswith("vLLM ended during the run and was started again, once: other")
    two.close()
