"""What the machine and the models' files say."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.engines import devices
from tests.cases import cases_of

Smi = Callable[[str], None]


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Smi:
    """Puts an ``nvidia-smi`` that prints these lines first on the path."""

    def install(lines: str) -> None:
        tool = tmp_path / "nvidia-smi"
        script = f"#!/bin/sh\ncat <<'END'\n{lines}END\n"
        tool.write_text(script, encoding="utf-8", errors="surrogateescape")
        tool.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return install


THREE = (
    "0, GPU-aa11, 81920, 4\n"
    "1, GPU-bb22, 49152, 30000\n"
    "2, GPU-cc33, 49152, 500\n"
)  # fmt: skip


def test_gpus_that_others_use_are_left_out(smi: Smi) -> None:
    smi(THREE)
    found = devices.gpus()
    assert (found.kind, found.ids, found.memory, found.busy) == (
        "gpu",
        ("0", "2"),
        48.0,
        ("1",),
    )
    assert found.used == 500 / 49152, "by others on what is left"
    smi("0, GPU-aa11, 81920, 61440\n")
    found = devices.gpus()
    assert (found.ids, found.used) == (("0",), 0.75), (
        "where all are in use, there may be room"
    )


@pytest.mark.parametrize(
    ("limit", "ids", "memory"),
    [
        ("2", ("2",), 48.0),
        ("2,0", ("2", "0"), 48.0),
        ("1", ("1",), 48.0),
        ("GPU-aa", ("GPU-aa",), 80.0),
        ("MIG-1234", ("MIG-1234",), None),
        ("", (), None),
        ("-1", (), None),
    ],
)
def test_only_visible_gpus_count(
    smi: Smi,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    ids: tuple[str, ...],
    memory: float | None,
) -> None:
    smi(THREE)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", limit)
    found = devices.gpus()
    assert (found.ids, found.memory) == (ids, memory)


def test_a_gpu_that_shares_the_machine_s_memory(smi: Smi) -> None:
    smi("0, GPU-aa11, [N/A], [N/A]\n")
    found = devices.gpus()
    assert (found.ids, found.memory, found.used) == (("0",), None, 0.0)


@pytest.mark.parametrize(
    "lines",
    ["No devices were found\n", "", "Unable to determine \udce4 handle, GPU, lost\n"],
)
def test_what_the_driver_says_in_place_of_gpus_is_none(smi: Smi, lines: str) -> None:
    smi(lines)
    assert devices.gpus().kind == "unknown"


def test_the_cores_are_those_that_the_process_may_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 1})
    found = devices.cpu()
    assert found.ids == ("1", "3")
    assert found.memory
    assert found.memory > 0


@pytest.mark.parametrize("limits", cases_of(__file__)["limits"])
def test_a_container_s_limits_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any]
) -> None:
    for name, text in limits["files"].items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(devices, "_CGROUPS", tmp_path)
    found = devices.cpu()
    assert found.quota == limits.get("cores")
    free = round((found.memory or 0) * 2**30)
    assert (free == limits["memory"]) if "memory" in limits else free > 2**20
