"""Which engines run where: a table of machines and models."""

from collections.abc import Sequence
from dataclasses import asdict, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusal_checks.core.errors import UserError
from refusal_checks.engines.devices import Devices
from refusal_checks.engines.engine import Assignment
from refusal_checks.engines.kinds import vllm
from refusal_checks.engines.placement import EngineNeed, Placement, PlacementRequest
from refusal_checks.engines.placing import choose
from tests.cases import cases_of

CASES = cases_of(__file__)


def gpus(count: int, memory: float | None = 80.0) -> Devices:
    return Devices("gpu", tuple(map(str, range(count))), memory)


def cpu(cores: int, memory: float = 22.0) -> Devices:
    return Devices("cpu", tuple(map(str, range(cores))), memory)


def candidate(weights: float | None, *args: str) -> EngineNeed:
    return EngineNeed(
        "org/candidate", vllm.ENGINE.parallel(args), weights, answers=True
    )


def judge(weights: float | None, *args: str) -> EngineNeed:
    return EngineNeed(
        "org/judge", vllm.ENGINE.parallel(args), weights, answers=False, judges=True
    )


def both(weights: float | None, *args: str) -> EngineNeed:
    return EngineNeed(
        "org/both", vllm.ENGINE.parallel(args), weights, answers=True, judges=True
    )


AUTO, SPLIT = PlacementRequest(), PlacementRequest("split")
UNKNOWN = Devices("unknown")
SMALL, LARGE = candidate(15.0), judge(40.0)


def share(value: float) -> Assignment:
    return Assignment(memory=value)


def copies(number: int, *devices: str) -> Assignment:
    return Assignment(copies=number, devices=devices)


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
    "unknown": UNKNOWN,
    "one busy": Devices("gpu", ("1",), 80.0, busy=("0",)),
    "15% taken": Devices("gpu", ("0",), 80.0, used=0.15),
    "10% taken": Devices("gpu", ("0",), 80.0, used=0.1),
}


def machine(text: str) -> Devices:
    if text in MACHINES:
        return MACHINES[text]
    count, kind, memory = text.split()
    return (gpus if kind == "gpu" else cpu)(int(count), float(memory))


def need(text: str) -> EngineNeed:
    role, size, *args = text.split()
    weights = None if size == "?" else float(size)
    if role == "candidate":
        return candidate(weights, *args)
    if role == "both":
        return both(weights, *args)
    found = judge(weights, *args)
    return replace(found, classifies=role == "classifier", model=f"org/{role}")


@pytest.mark.parametrize("name", CASES)
def test_what_is_chosen(name: str) -> None:
    devices, needed, expected = CASES[name]
    needs = [need(each) for each in needed.split(", ") if each]
    found = choose(machine(devices), needs, AUTO)
    assert shown(found) == expected
    assert "\n" not in found.why
    assert found.turns == (2 if found.kind == "turns" else 1)
    for each in needs:
        assert each.model in found.why


TOY, SMALL_MODEL, UNKNOWN_SIZE = candidate(0.006), candidate(0.25), candidate(None)


@pytest.mark.parametrize(
    ("cores", "quota", "need", "threads"),
    [
        (1, None, SMALL_MODEL, 1),
        (1, None, TOY, 1),
        (2, None, SMALL_MODEL, 2),
        (2, None, UNKNOWN_SIZE, 2),
        (2, None, TOY, 1),
        (4, None, SMALL_MODEL, 4),
        (8, None, SMALL_MODEL, 7),
        (64, 2.0, SMALL_MODEL, 2),
        (64, 0.5, SMALL_MODEL, 1),
        (64, 8.0, SMALL_MODEL, 7),
        (2, 16.0, SMALL_MODEL, 2),
        (8, None, candidate(1.0, "-tp", "2"), 8),
        (8, 4.0, candidate(1.0, "-tp", "2"), 4),
        (8, 1.0, candidate(1.0, "-tp", "2"), 2),
    ],
)
def test_threads_are_of_the_cores_and_the_model_s_size(
    cores: int, quota: float | None, need: EngineNeed, threads: int
) -> None:
    devices = Devices("cpu", tuple(map(str, range(cores))), 22.0, quota=quota)
    (place,) = choose(devices, [need], AUTO).places
    assert place.threads == threads
    assert len(place.cores) == cores, (
        "a container's neighbours may have the first ones too"
    )


def test_what_must_run_at_once_takes_no_turns() -> None:
    found = choose(gpus(1, 48.0), [SMALL, LARGE], PlacementRequest(at_once=True))
    assert found.kind == "together"
    assert "may not fit" in found.why
    # 43.2 GiB to plan with, divided as 15 to 40
    assert list(found.places) == [share(0.25), share(0.65)]


@pytest.mark.parametrize("wanted", [AUTO, PlacementRequest("turns")])
def test_judges_alone_take_no_turns(wanted: PlacementRequest) -> None:
    found = choose(gpus(1, 48.0), [LARGE, need("other 30")], wanted)
    assert (found.kind, found.turns) == ("together", 1)
    assert "may not fit" in found.why


def test_together_on_several_gpus_each_model_is_on_all_of_them() -> None:
    wanted = PlacementRequest("together")
    found = choose(gpus(4), [SMALL, LARGE], wanted)
    assert [(place.shards, place.copies) for place in found.places] == [(1, 4)] * 2
    found = choose(gpus(4), [candidate(100.0), judge(13.0, "-tp", "4")], wanted)
    # (50 + (72 - 53.25) / 2) / 80 and (3.25 + ...) / 80
    assert list(found.places) == [
        Assignment(memory=0.74, shards=2, copies=2),
        share(0.16),
    ]
    found = choose(gpus(4), [SMALL, judge(None)], wanted)
    assert found.places[1] == share(0.36)


def test_the_user_s_devices() -> None:
    wanted = PlacementRequest(candidate_devices=("3",))
    found = choose(gpus(4), [SMALL, LARGE], wanted)
    assert list(found.places) == [Assignment(devices=("3",)), copies(3, "0", "1", "2")]
    wanted = PlacementRequest("split", ("0", "1"), ("2",))
    found = choose(gpus(4), [candidate(None), LARGE], wanted)
    assert shown(found) == "split: devices=0,1 shards=2 | devices=2"
    found = choose(cpu(4), [SMALL, judge(1.0)], PlacementRequest(judge_devices=("3",)))
    assert [place.cores for place in found.places] == [(0, 1, 2), (3,)]
    found = choose(UNKNOWN, [SMALL, LARGE], PlacementRequest("split", ("0",), ("1",)))
    assert [place.devices for place in found.places] == [("0",), ("1",)]


@pytest.mark.parametrize(
    ("devices", "needs", "wanted", "says"),
    [
        (gpus(1), [SMALL, LARGE], SPLIT, "2 GPUs needed and 1 there .*turns"),
        (
            cpu(1),
            [SMALL, LARGE],
            SPLIT,
            "2 engines for 1 cores: use --set engine.placement=turns",
        ),
        (
            gpus(2),
            [SMALL, LARGE],
            replace(SPLIT, judge_devices=("2",)),
            "no device 2 .*: 0,1",
        ),
        (
            gpus(2),
            [SMALL, LARGE],
            PlacementRequest("split", ("1",), ("1",)),
            "both name 1",
        ),
        (
            gpus(2),
            [candidate(15.0, "-tp", "2"), LARGE],
            PlacementRequest("split", ("0",), ("1",)),
            "org/candidate: 2 GPUs needed and 1 there",
        ),
        (
            Devices("gpu", ("0", "2"), 80.0, busy=("1",)),
            [both(15.0, "-tp", "3")],
            AUTO,
            "3 GPUs needed and 2 there .*others use GPU 1; name it in CUDA_VISIBLE_DEVICES",
        ),
        (gpus(1), [both(15.0), LARGE], PlacementRequest("turns"), "both turns need it"),
    ],
)
def test_what_cannot_be_placed_says_so(
    devices: Devices, needs: Sequence[EngineNeed], wanted: PlacementRequest, says: str
) -> None:
    with pytest.raises(UserError, match=says):
        choose(devices, needs, wanted)


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
    needs = [candidate(first), replace(judge(second), classifies=reads)]
    found = choose(gpus(count, memory), needs, PlacementRequest(at_once=at_once))
    one, other = found.places
    if found.kind == "split":
        assert not set(one.devices) & set(other.devices)
        assert set(one.devices) | set(other.devices) <= set(map(str, range(count)))
        assert one.devices
        assert other.devices
    if found.kind == "together":
        assert sum(place.memory or 0 for place in found.places) <= 0.9 + 0.01
        assert all(place.memory for place in found.places)
    assert not (at_once and found.kind == "turns")
    for place in found.places:
        assert place.shards * place.copies <= len(place.devices or range(count))
