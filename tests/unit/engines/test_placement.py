"""Which engines run where: a table of machines and models; and what a machine has."""

import math
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusal_checks.core.errors import UserError
from refusal_checks.engines import placement, vllm
from refusal_checks.engines.placement import (
    Assignment,
    Devices,
    EngineNeed,
    Placement,
    PlacementRequest,
    place,
)
from tests.support.cases import cases_of

CASES = cases_of(__file__)


AUTO, TURNS = PlacementRequest(), PlacementRequest("turns")
PAIR = "candidate 15, judge 40"


def shown(found: Placement) -> str:
    """The kind, and what differs from an engine that has the machine for itself."""
    ways = []
    for own in found.places:
        way = asdict(own)
        for name, value in asdict(Assignment()).items():
            if way[name] == value:
                del way[name]
            elif isinstance(value, tuple):
                way[name] = ",".join(map(str, way[name]))
        ways.append(" ".join(f"{name}={value}" for name, value in way.items()) or "all")
    return f"{found.kind}: {' | '.join(ways)}"


MACHINES = {
    "unknown": Devices("unknown"),
    "15% taken": Devices("gpu", ("0",), 80.0, used=0.15),
    "10% taken": Devices("gpu", ("0",), 80.0, used=0.1),
}


def machine(text: str, quota: float = math.inf) -> Devices:
    """One of the above, or so many devices, their kind, and the memory in GiB."""
    if text in MACHINES:
        return MACHINES[text]
    count, kind, memory = text.split()
    ids = tuple(map(str, range(int(count))))
    return Devices(kind, ids, float(memory), quota=quota)  # type: ignore[arg-type]


def need(text: str) -> EngineNeed:
    """A model by its role, the GiB of its weights, and the arguments of its engine."""
    role, size, *args = text.split()
    return EngineNeed(
        f"org/{role}",
        vllm.read_parallelism(args),
        None if size == "?" else float(size),
        answers=role in ("candidate", "both"),
        judges=role != "candidate",
        classifies=role == "classifier",
    )


def needs(text: str) -> list[EngineNeed]:
    return [need(part) for part in text.split(", ") if part]


@pytest.mark.parametrize("name", CASES)
def test_what_is_chosen(name: str) -> None:
    devices, models, expected = CASES[name]
    found = place(machine(devices), needs(models), AUTO)
    assert shown(found) == expected
    assert "\n" not in found.why
    assert found.turns == (2 if found.kind == "turns" else 1)
    for model in needs(models):
        assert model.model in found.why


@pytest.mark.parametrize(
    ("cores", "quota", "model", "threads"),
    [
        (2, math.inf, "candidate ?", 2),
        (8, math.inf, "candidate 0.25", 7),
        (64, 0.5, "candidate 0.25", 1),
        (64, 8.0, "candidate 0.25", 7),
        (2, 16.0, "candidate 0.25", 2),
    ],
)
def test_threads_are_of_the_cores_and_the_model_s_size(
    cores: int, quota: float, model: str, threads: int
) -> None:
    devices = machine(f"{cores} cpu 22", quota)
    (found,) = place(devices, needs(model), AUTO).places
    assert found.threads == threads
    assert len(found.cores) == cores, (
        "a container's neighbours may have the first ones too"
    )


JUDGES = "judge 25, other 15"
TOGETHER = PlacementRequest("together")
ALONE = "together: devices=0 memory={} loads_alone=True | devices=0 memory={} loads_alone=True"


@pytest.mark.parametrize(
    ("devices", "models", "request_", "expected"),
    [
        # 43.2 GiB to plan with, of which each gets its weights and half of the 3.2 left.
        ("1 gpu 48", "candidate 15, judge 25", TOGETHER,
         ALONE.format(0.346, 0.554)),
        # A quantised model is smaller than its files: its user says its share.
        ("1 gpu 48", "candidate 60 -q fp8 --gpu-memory-utilization 0.5, judge 12", AUTO,
         ALONE.format(0.5, 0.4)),
        ("1 gpu 48", JUDGES, TURNS, ALONE.format(0.554, 0.346)),
        ("4 gpu 80", PAIR, TOGETHER, "split: devices=0 memory=0.9 | devices=1 memory=0.9"),
        ("4 gpu 80", PAIR, PlacementRequest("auto", ("3",), ("0",)),
         "split: devices=3 memory=0.9 | devices=0 memory=0.9"),
        ("4 cpu 22", "candidate 15, judge 1", PlacementRequest("auto", ("0", "1", "2"), ("3",)),
         "split: cores=0,1,2 cache=1 threads=3 | cores=3 cache=1 threads=1"),
        ("2 gpu 80", PAIR, TURNS, "turns: devices=0 memory=0.9 | devices=0 memory=0.9 turn=1"),
        ("1 gpu 80", PAIR, PlacementRequest("auto", ("MIG-a",), ("MIG-b",)),
         "split: devices=MIG-a memory=0.9 | devices=MIG-b memory=0.9"),
        ("unknown", PAIR, PlacementRequest("auto", ("0",), ("1",)),
         "split: devices=0 memory=0.9 | devices=1 memory=0.9"),
    ],
)  # fmt: skip
def test_what_the_user_asks_for_is_done(
    devices: str, models: str, request_: PlacementRequest, expected: str
) -> None:
    found = place(machine(devices), needs(models), request_)
    assert shown(found) == expected
    assert ("may not fit" in found.why) is (models == JUDGES)


@pytest.mark.parametrize(
    ("devices", "models", "request_", "says"),
    [
        ("2 gpu 80", PAIR, PlacementRequest("auto", ("0",), ("2",)),
         "^judge.devices: no free device 2 here, only 0,1; CUDA_VISIBLE_DEVICES may"),
        ("2 gpu 80", PAIR, PlacementRequest("auto", ("1",), ("1",)),
         "^candidate.devices: name other devices than for the other role: both have 1"),
        ("2 gpu 80", PAIR, PlacementRequest(candidate_devices=("0", "1")),
         "^judge.devices: name devices for org/judge .40.0 GiB., too, or for none"),
        ("2 gpu 80", "candidate 15 -tp 2, judge 40", PlacementRequest("auto", ("0",), ("1",)),
         "^org/candidate .15.0 GiB.: name more devices, .* it has 0, and needs 2"),
        ("1 gpu 80", "both 15, judge 40", TURNS,
         "^engine.placement=turns: use --set engine.placement=together; .* both turns need it"),
        ("1 gpu 24", "candidate 15, judge 13", TOGETHER,
         "^use smaller models, .* can take turns .engine.placement=turns.; .*: org/candidate "
         ".15.0 GiB. and org/judge .13.0 GiB. do not fit on GPU 0 of 24 GiB"),
        ("1 gpu 24", "both 15, judge 13", AUTO, "^use smaller models, or more or larger GPUs, "),
        ("2 gpu 24", "candidate 60, judge 13", AUTO,
         "^use smaller models, .*: org/candidate .60.0 GiB. do not fit on GPU 0 of 24 GiB"),
        # It would fit into the whole GPU, but not into 90% of it.
        ("1 gpu 80", "candidate 71.5", AUTO, "^use smaller models"),
    ],
)  # fmt: skip
def test_what_cannot_be_placed_says_so(
    devices: str, models: str, request_: PlacementRequest, says: str
) -> None:
    with pytest.raises(UserError, match=says):
        place(machine(devices), needs(models), request_)


sizes = st.just("?") | st.floats(0.1, 400)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 16),
    st.floats(8, 500),
    sizes,
    sizes,
    st.sampled_from(["judge", "classifier"]),
)
def test_no_gpu_is_given_twice_and_no_memory_that_is_not_there(
    count: int, memory: float, first: float | str, second: float | str, role: str
) -> None:
    models = needs(f"candidate {first}, {role} {second}")
    refused = ""
    try:
        found = place(machine(f"{count} gpu {memory}"), models, AUTO)
    except UserError as fault:
        refused = str(fault)
    if refused:
        assert "not fit" in refused
        assert max(model.weights or 0 for model in models) > 0.9 * memory - 2
        return
    one, other = found.places
    if found.kind == "split":
        assert {one.devices, other.devices} <= {(str(n),) for n in range(count)}
        assert one.devices != other.devices
    if found.kind == "together":
        assert bool(one.cache) is bool(other.cache), (
            "else they load one after the other"
        )
        for model, own in zip(models, found.places, strict=True):
            used = (model.weights or 0.0) + (own.cache or 0.0)
            assert used <= (own.memory or 0.0) * memory
        assert (one.memory or 0.0) + (other.memory or 0.0) <= 0.9 + 0.01


class NVMLError(Exception):
    """What NVML raises."""


Sizes = Mapping[str, tuple[float, float]]
THREE: Sizes = {"0": (80, 0), "1": (48, 29), "2": (48, 0.5), "MIG-1234": (9.5, 0)}


def nvml(monkeypatch: pytest.MonkeyPatch, sizes: Sizes) -> None:
    """Put an NVML in place that knows GPUs, and slices by name, with GiB there and in use."""

    def handle(name: object) -> str:
        if str(name) not in sizes:
            raise NVMLError
        return str(name)

    def memory(name: str) -> SimpleNamespace:
        total, used = sizes[name]
        return SimpleNamespace(total=total * 2**30, used=used * 2**30)

    library = SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: sum(map(str.isdecimal, sizes)),
        nvmlDeviceGetHandleByIndex=handle,
        nvmlDeviceGetHandleByUUID=handle,
        nvmlDeviceGetMemoryInfo=memory,
    )
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize(
    ("there", "visible", "ids", "memory", "used"),
    [
        (THREE, None, ("0", "2"), 48.0, 0.5 / 48),  # others use GPU 1
        ({"0": (80, 60)}, None, ("0",), 80.0, 0.75),  # there may be room
        (THREE, "2,0", ("2", "0"), 48.0, 0.5 / 48),
        (THREE, "1", ("1",), 48.0, 29 / 48),
        (THREE, "MIG-1234", ("MIG-1234",), 9.5, 0.0),
        (THREE, "MIG-56", ("MIG-56",), None, 0.0),
        (THREE, "", (), None, 0.0),
        (THREE, "-1", (), None, 0.0),
    ],
)
def test_visible_gpus_that_others_leave_free_are_used(
    monkeypatch: pytest.MonkeyPatch,
    there: Sizes,
    visible: str | None,
    ids: tuple[str, ...],
    memory: float | None,
    used: float,
) -> None:
    nvml(monkeypatch, there)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = placement.gpus()
    assert (found.ids, found.memory, found.used) == (ids, memory, used)


def test_gpus_of_others_than_nvidia_are_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert placement.gpus() == placement.UNKNOWN
    why = place(placement.UNKNOWN, needs(PAIR), AUTO).why
    assert why.endswith(
        "memory is not known here: use --set engine.placement=turns if they do not fit"
    )


@pytest.mark.parametrize(
    ("files", "quota", "left"),
    [
        ({}, math.inf, None),
        ({"memory.max": "max", "memory.current": "9", "cpu.max": "max 100000\n"}, math.inf, None),
        ({"memory.max": "1000\n", "memory.current": "700\n", "cpu.max": "150000 100000\n",
          "memory.stat": "anon 100\nactive_file 50\ninactive_file 200\n"}, 1.5, 550),
    ],
)  # fmt: skip
def test_the_cores_of_the_process_and_a_container_s_limits_count(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: Mapping[str, str],
    quota: float,
    left: int | None,
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(placement, "_CGROUP", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 1})
    found = placement.cpu()
    assert (found.ids, found.quota) == (("1", "3"), quota)
    free = round((found.memory or 0) * 2**30)
    assert (free == left) if left else free > 2**20
