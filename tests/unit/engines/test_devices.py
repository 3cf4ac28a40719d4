"""What the machine and the models' files say."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refusal_checks.engines import devices
from tests.cases import cases_of

Smi = Callable[..., None]


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Smi:
    """Puts an ``nvidia-smi`` that prints these lines first on the path."""

    def install(lines: str, listed: str = "") -> None:
        tool = tmp_path / "nvidia-smi"
        script = (
            f"#!/bin/sh\nif [ $1 = -L ]; then cat <<'END'\n{listed}END\n"
            f"else cat <<'END'\n{lines}END\nfi\n"
        )
        tool.write_text(script, encoding="utf-8", errors="surrogateescape")
        tool.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return install


THREE = (
    "0, GPU-aa11, 81920, 4, Disabled\n"
    "1, GPU-bb22, 49152, 30000, [N/A]\n"
    "2, GPU-cc33, 49152, 500, [N/A]\n"
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
    smi("0, GPU-aa11, 81920, 61440, Disabled\n")
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


DIVIDED = """GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-aa11)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-bb22)
  MIG 3g.40gb     Device  0: (UUID: MIG-c7384736-a75d-5afc-978f-d2f1294409fd)
  MIG 1g.10gb+me  Device  1: (UUID: MIG-a28ad590-3fda-56dd-84fc-0a0b96edc58d)
"""
LARGER, SMALLER = (
    "MIG-c7384736-a75d-5afc-978f-d2f1294409fd",
    "MIG-a28ad590-3fda-56dd-84fc-0a0b96edc58d",
)


@pytest.mark.parametrize(
    ("limit", "ids", "memory"),
    [
        (None, (LARGER, SMALLER), 9.5),
        (LARGER, (LARGER,), 38.0),
        ("MIG-a28", ("MIG-a28",), 9.5),
        ("1", ("1",), 9.5),
    ],
)
def test_a_slice_of_a_gpu_has_its_own_memory(
    smi: Smi,
    monkeypatch: pytest.MonkeyPatch,
    limit: str | None,
    ids: tuple[str, ...],
    memory: float,
) -> None:
    smi("1, GPU-bb22, 81559, 12000, Enabled\n", DIVIDED)
    if limit:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", limit)
    found = devices.gpus()
    assert (found.ids, found.memory, found.used) == (ids, memory, 0.0)
    assert found.are_slices


def test_a_gpu_that_shares_the_machine_s_memory(smi: Smi) -> None:
    smi("0, GPU-aa11, [N/A], [N/A], [N/A]\n")
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
