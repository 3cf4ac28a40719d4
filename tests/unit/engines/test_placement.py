"""Which engines run where: a table of machines and models."""

from dataclasses import asdict, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusal_checks.core.errors import UserError
from refusal_checks.engines import vllm
from refusal_checks.engines.devices import Devices
from refusal_checks.engines.engine import Assignment
from refusal_checks.engines.placement import EngineNeed, Placement, PlacementRequest
from refusal_checks.engines.placing import choose
from tests.cases import cases_of

CASES = cases_of(__file__)


AUTO, SPLIT = PlacementRequest(), PlacementRequest("split")
PAIR = "candidate 15, judge 40"


def shown(found: Placement) -> str:
    """The kind, and what differs from an engine that has the machine for itself."""
    ways = []
    for place in found.places:
        way = asdict(place)
        for name, value in asdict(Assignment()).items():
            if way[name] == value:
                del way[name]
            elif isinstance(value, tuple):
                way[name] = ",".join(map(str, way[name]))
        ways.append(" ".join(f"{name}={value}" for name, value in way.items()) or "all")
    return f"{found.kind}: {' | '.join(ways)}"


MACHINES = {
    "unknown": Devices("unknown"),
    "one busy": Devices("gpu", ("1",), 80.0, busy=("0",)),
    "two of three": Devices("gpu", ("0", "2"), 80.0, busy=("1",)),
    "15% taken": Devices("gpu", ("0",), 80.0, used=0.15),
    "two slices": Devices("gpu", ("MIG-a", "MIG-b"), 9.5, are_slices=True),
    "one slice": Devices("gpu", ("MIG-a",), 9.5, are_slices=True),
    "10% taken": Devices("gpu", ("0",), 80.0, used=0.1),
}


def machine(text: str, quota: float | None = None) -> Devices:
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
        vllm.ENGINE.parallel(args),
        None if size == "?" else float(size),
        answers=role in ("candidate", "both", "both-mixture"),
        judges=role != "candidate",
        is_mixture="mixture" in role,
        classifies=role == "classifier",
    )


def needs(text: str) -> list[EngineNeed]:
    return [need(part) for part in text.split(", ") if part]


@pytest.mark.parametrize("name", CASES)
def test_what_is_chosen(name: str) -> None:
    devices, models, expected = CASES[name]
    found = choose(machine(devices), needs(models), AUTO)
    assert shown(found) == expected
    assert "\n" not in found.why
    assert found.turns == (2 if found.kind == "turns" else 1)
    for model in needs(models):
        assert model.model in found.why


@pytest.mark.parametrize(
    ("cores", "quota", "model", "threads"),
    [
        (1, None, "candidate 0.25", 1),
        (2, None, "candidate 0.25", 2),
        (2, None, "candidate ?", 2),
        (2, None, "candidate 0.006", 1),
        (8, None, "candidate 0.25", 7),
        (64, 0.5, "candidate 0.25", 1),
        (64, 8.0, "candidate 0.25", 7),
        (2, 16.0, "candidate 0.25", 2),
        (8, None, "candidate 1 -tp 2", 8),
        (8, 1.0, "candidate 1 -tp 2", 2),
    ],
)
def test_threads_are_of_the_cores_and_the_model_s_size(
    cores: int, quota: float | None, model: str, threads: int
) -> None:
    devices = machine(f"{cores} cpu 22", quota)
    (place,) = choose(devices, needs(model), AUTO).places
    assert place.threads == threads
    assert len(place.cores) == cores, (
        "a container's neighbours may have the first ones too"
    )


JUDGES = "judge 25, other 15"
TOGETHER = PlacementRequest("together")


@pytest.mark.parametrize(
    ("devices", "models", "request_", "expected"),
    [
        # 43.2 GiB to plan with, of which each gets its weights and half of the 3.2 left.
        ("1 gpu 48", "candidate 15, judge 25", TOGETHER,
         "together: memory=0.35 | memory=0.55"),
        ("1 gpu 48", JUDGES, AUTO, "together: memory=0.55 | memory=0.35"),
        ("1 gpu 48", JUDGES, PlacementRequest("turns"), "together: memory=0.55 | memory=0.35"),
        ("4 gpu 80", PAIR, TOGETHER, "together: devices=0 memory=0.29 | devices=0 memory=0.61"),
        # (50 + (72 - 53.25) / 2) / 80 and (3.25 + ...) / 80
        ("4 gpu 80", "candidate 100, judge 13 -tp 4", TOGETHER,
         "together: devices=0,1 memory=0.74 shards=2 cache=1.2 | memory=0.16 cache=1.5"),
        ("4 gpu 80", PAIR, PlacementRequest(candidate_devices=("3",)),
         "split: devices=3 memory=0.9 | devices=0 memory=0.9"),
        ("2 gpu 80", PAIR, PlacementRequest("turns", candidate_devices=("0", "1")),
         "turns: devices=0 memory=0.9 | devices=0 memory=0.9 turn=1"),
        ("4 gpu 80", "candidate ?, judge 40", PlacementRequest("split", ("0", "1"), ("2",)),
         "split: devices=0,1 memory=0.9 shards=2 | devices=2 memory=0.9"),
        ("unknown", PAIR, PlacementRequest("split", ("0",), ("1",)),
         "split: devices=0 | devices=1"),
    ],
)  # fmt: skip
def test_what_the_user_asks_for_is_done(
    devices: str, models: str, request_: PlacementRequest, expected: str
) -> None:
    found = choose(machine(devices), needs(models), request_)
    assert shown(found) == expected
    assert found.turns == (2 if found.kind == "turns" else 1)
    assert ("may not fit" in found.why) is (models == JUDGES)


def test_the_user_s_cores_are_the_judge_s_alone() -> None:
    wanted = PlacementRequest(judge_devices=("3",))
    found = choose(machine("4 cpu 22"), needs("candidate 15, judge 1"), wanted)
    assert [place.cores for place in found.places] == [(0, 1, 2), (3,)]


@pytest.mark.parametrize(
    ("devices", "models", "request_", "says"),
    [
        ("1 gpu 80", PAIR, SPLIT, "2 GPUs needed, 1 found .*turns"),
        ("1 cpu 22", PAIR, SPLIT, "2 engines for 1 core: use --set engine.placement=turns"),
        ("2 gpu 80", PAIR, replace(SPLIT, judge_devices=("2",)), "no device 2 .*: 0,1"),
        ("2 gpu 80", PAIR, PlacementRequest("split", ("1",), ("1",)), "both name 1"),
        ("2 gpu 80", "candidate 15 -tp 2, judge 40", PlacementRequest("split", ("0",), ("1",)),
         "org/candidate: 2 GPUs needed, 1 found"),
        ("two of three", "both 15 -tp 3", AUTO,
         "3 GPUs needed, 2 found .*others use GPU 1; name it in CUDA_VISIBLE_DEVICES"),
        ("1 gpu 80", "both 15, judge 40", PlacementRequest("turns"), "both turns need it"),
        ("1 gpu 24", "candidate 15, judge 13", TOGETHER,
         "^use --set engine.placement=turns: org/candidate .15.0 GiB. and org/judge .13.0 GiB. do "
         "not fit on GPU 0 of 24 GiB at the same time"),
        ("1 gpu 24", "judge 15, other 13", AUTO, "^use a smaller judge, or more or larger GPUs: "),
        ("1 gpu 24", "judge 15, other 13", TOGETHER, "^use a smaller judge"),
        ("1 gpu 24", "both 15, judge 13", AUTO, "^use a smaller judge"),
        ("1 gpu 80", "candidate 15 --gpu-memory-utilization 0.95, judge 13", TOGETHER,
         "^give less than --gpu-memory-utilization 0.95: "),
        ("2 gpu 24", "candidate 60, judge 13", AUTO,
         "^use a smaller model, or more or larger GPUs: org/candidate .60.0 GiB. does not fit"),
        ("two slices", "candidate 15", AUTO, "org/candidate .15.0 GiB. does not fit"),
        # They would fit into the whole GPUs, but not into 90% of them.
        ("2 gpu 80", "candidate 131, judge 13", TOGETHER,
         "^use --set engine.placement=turns"),
        ("1 gpu 80", "candidate 71.5", AUTO, "^give more than --gpu-memory-utilization 0.9, or "),
        ("1 gpu 80", "candidate 15 --gpu-memory-utilization 0.05, judge 13", AUTO,
         "^give more than --gpu-memory-utilization 0.05: .* does not fit into 4.0 GiB"),
        ("1 gpu 80", "candidate 15 --enable-lora --gpu-memory-utilization 0.95, judge 13",
         TOGETHER, "^give less than --gpu-memory-utilization 0.95: "),
        ("two slices", "candidate 3 -tp 2", AUTO,
         "^org/candidate: leave out the arguments that spread it over 2 devices"),
        ("4 gpu 80", "candidate 15 -tp 8, judge 13", AUTO,
         "^org/candidate: 8 GPUs needed, 4 found .0, 1, 2, 3.: spread it over fewer"),
        ("2 gpu 80", PAIR, PlacementRequest(candidate_devices=("0", "1")),
         "^org/judge: 1 GPU needed, 0 found .none.: give more with"),
    ],
)  # fmt: skip
def test_what_cannot_be_placed_says_so(
    devices: str, models: str, request_: PlacementRequest, says: str
) -> None:
    with pytest.raises(UserError, match=says):
        choose(machine(devices), needs(models), request_)


sizes = st.one_of(st.none(), st.floats(0.1, 400))


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 16), st.floats(8, 500), sizes, sizes, st.booleans(), st.booleans()
)
def test_no_gpu_is_given_twice_and_no_memory_that_is_not_there(
    count: int,
    memory: float,
    first: float | None,
    second: float | None,
    at_once: bool,
    reads: bool,
) -> None:
    models = [
        replace(need("candidate ?"), weights=first),
        replace(need("judge ?"), weights=second, classifies=reads),
    ]
    request = TOGETHER if at_once else AUTO
    refused = ""
    try:
        found = choose(machine(f"{count} gpu {memory}"), models, request)
    except UserError as fault:
        refused = str(fault)
    if refused:
        assert "not fit" in refused
        largest = max(first or 0, second or 0)
        weights = (first or 0) + (second or 0) if at_once else largest
        assert weights > 0.9 * memory - 2
        return
    one, other = found.places
    if found.kind == "split":
        assert not set(one.devices) & set(other.devices)
        assert set(one.devices) | set(other.devices) <= set(map(str, range(count)))
        assert one.devices
        assert other.devices
    caches = [place.cache for place in found.places]
    assert all(caches) or not any(caches), "else they would load one after the other"
    if found.kind == "together":
        for model, place in zip(models, found.places, strict=True):
            used = (model.weights or 0.0) / place.shards + (place.cache or 0.0)
            assert used <= (place.memory or 0.0) * memory
        assert sum(place.memory or 0 for place in found.places) <= 0.9 + 0.01
        assert all(place.memory for place in found.places)
    assert not (at_once and found.kind == "turns")
    for place in found.places:
        assert place.shards <= len(place.devices or range(count))
