"""Choose where engines run: which devices each one gets, and whether all run at the same time.

Each engine gets GPUs of its own if there are enough. Else all share the devices if they fit, with
memory for their weights and an equal part of the rest. Else they take turns: the candidate answers
everything, then the judge judges. What the user says wins: ``candidate.devices``,
``judge.devices``, ``engine.placement``, and the engines' own arguments, which alone spread a model
over several GPUs or machines.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import psutil

from refusal_checks.core.errors import UserError
from refusal_checks.core.text import count

Kind = Literal["none", "one", "together", "turns", "split"]
"""``none``: no engine starts; ``one``: a single engine; ``together``: all at the same time on the
same devices; ``turns``: the candidate's engine first, the judge's after it; ``split``: all at the
same time, each on devices of its own."""

Wanted = Literal["auto", "together", "turns"]

ENCODER = 1.0
"""GiB of weights below which a classifier is an encoder, which keeps no cache."""

USABLE, SPARE = 0.9, 0.05
"""Share of a GPU's memory that engines may plan with, and the share that stays free beside what
others use: vLLM does not start if less is free than its share."""

OVERHEAD = {False: 4.0, True: 2.0}
"""GiB that an engine needs on a GPU besides weights, with a small cache; True for an encoder."""

LARGE = 70.0
"""GiB of a GPU from which vLLM computes more at once, and works with more memory."""

LEAST_CACHE = 1
"""GiB of a cache below which an engine is to measure what it can have: it may be a little more."""

MOST_USED = 0.2
"""Share of a GPU's memory in use above which it is left to others."""

CPU_USABLE, CPU_OVERHEAD = 0.8, 2.5
"""Share of the free memory that engines on a CPU may plan with, and GiB of vLLM and torch."""

TOY = 0.1
"""GiB of weights below which a model's server spends more on HTTP and Python than on computing."""

FEW = 4
"""Cores up to which all engines share them, and use all. Two models of 135 M parameters on two
cores are 1.5 times as fast that way as with a core each."""


@dataclass(frozen=True)
class Devices:
    """The devices that engines can run on.

    Attributes:
        kind: ``gpu``, ``cpu``, or ``unknown`` if NVML lists no GPU.
        ids: GPUs as in CUDA_VISIBLE_DEVICES, or numbers of CPU cores.
        memory: GiB of the smallest GPU, or GiB free for engines on a CPU; None if unknown.
        used: share of a GPU's memory that other processes hold; the largest of all GPUs.
        quota: CPU time, in cores, that a container may use at once.
    """

    kind: Literal["gpu", "cpu", "unknown"]
    ids: tuple[str, ...] = ()
    memory: float | None = None
    used: float = 0.0
    quota: float = math.inf

    @property
    def name(self) -> str:
        if self.kind == "cpu":
            return f"{count(len(self.ids), 'CPU core')} with {self.memory:.0f} GiB free"
        if not self.ids:
            return "devices whose memory is not known here"
        memory = f" of {self.memory:.0f} GiB" if self.memory else ""
        return f"GPU {','.join(self.ids)}{memory}"


UNKNOWN = Devices("unknown")


@dataclass(frozen=True)
class Parallel:
    """What an engine's arguments say about devices and their memory.

    Attributes:
        shards, copies: GPUs that one copy of the model is split over, and copies.
        memory: share of each GPU's memory; None if not given.
        is_given: True if there are any arguments: they may change how much memory it needs.
    """

    shards: int = 1
    copies: int = 1
    memory: float | None = None
    is_given: bool = False

    @property
    def ranks(self) -> int:
        return self.shards * self.copies


@dataclass(frozen=True, eq=False)
class EngineNeed:
    """An engine to be placed. Equal needs of the same model remain two engines.

    Attributes:
        weights: GiB of the model's weight files; None if unknown.
        answers, judges: whether it serves the candidate, and whether it serves a judge.
        classifies: True if it reads each text once and writes nothing.
    """

    model: str
    parallel: Parallel = field(default_factory=Parallel)
    weights: float | None = None
    answers: bool = True
    judges: bool = False
    classifies: bool = False

    @property
    def is_encoder(self) -> bool:
        return self.classifies and self.weights is not None and self.weights < ENCODER

    @property
    def on_each_gpu(self) -> float:
        """GiB of weights on each GPU; 0 if unknown."""
        return (self.weights or 0.0) / self.parallel.shards

    def __str__(self) -> str:
        size = f"{self.weights:.1f} GiB" if self.weights else "weights of unknown size"
        return f"{'/'.join(self.model.split('/')[-2:])} ({size})"


@dataclass(frozen=True)
class PlacementRequest:
    """What the user asks for; without devices, the placement chooses them."""

    kind: Wanted = "auto"
    candidate_devices: tuple[str, ...] = ()
    judge_devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Assignment:
    """Where one engine runs; the user's own arguments win over it.

    Attributes:
        devices: GPUs that it may see; empty for all.
        cores: CPU cores that its processes may run on; empty for all.
        memory: share of each GPU's memory; None for the engine's default.
        cache: GiB for its cache. None leaves it to the engine, which measures on a GPU what its
            share of the memory leaves.
        is_eager: True if it shall start at once rather than compile for speed.
        threads: compute threads on a CPU; None for the engine's default.
        shared: True if other engines compute on the same cores, so that no thread may busy-wait.
        turn: 0, or 1 for an engine that starts once those of turn 0 have stopped.
    """

    devices: tuple[str, ...] = ()
    cores: tuple[int, ...] = ()
    memory: float | None = None
    cache: float | None = None
    is_eager: bool = False
    threads: int | None = None
    shared: bool = False
    turn: int = 0

    def __str__(self) -> str:
        words = f" on {','.join(self.devices)}" if self.devices else ""
        return words + (f" with {self.memory:.0%} of the memory" if self.memory else "")


WHOLE_MACHINE = Assignment()
"""An engine that has the machine for itself."""

Places = dict[EngineNeed, Assignment]


@dataclass(frozen=True)
class Placement:
    """Where each engine runs, in the order of the needs; ``why`` is one line for people."""

    kind: Kind
    why: str
    places: tuple[Assignment, ...] = ()

    @property
    def turns(self) -> int:
        """How many groups of engines run one after the other."""
        return 1 + max((place.turn for place in self.places), default=0)


def place(
    devices: Devices, needs: Sequence[EngineNeed], request: PlacementRequest
) -> Placement:
    """Choose where engines run; a pure function of its arguments.

    Raises:
        UserError: the user asks for what these devices do not allow.
    """
    if not needs:
        return Placement("none", "no engine to start here")
    # Ray, or other machines, carry what is spread over more GPUs than there are here.
    most = len(devices.ids) if devices.kind == "gpu" else math.inf
    here = [need for need in needs if need.parallel.ranks <= most]
    kind, why = _kind(devices, here, needs, request)
    candidates = [need for need in here if need.answers]
    judges = [need for need in here if not need.answers]
    places = dict.fromkeys(needs, WHOLE_MACHINE)
    if kind == "turns":
        places |= _at_once(devices, candidates)
        for need, assigned in _at_once(devices, judges).items():
            places[need] = replace(assigned, turn=1)
    elif request.candidate_devices or request.judge_devices:
        for part, group in _parts(devices, candidates, judges, request):
            places |= _at_once(part, group)
    else:
        places |= _at_once(devices, here)
    words = [f"{need}{places[need]}" for need in needs]
    ordered = tuple(places[need] for need in needs)
    return Placement(kind, f"{', '.join(words)}, on {devices.name}: {why}", ordered)


def _kind(
    devices: Devices,
    here: Sequence[EngineNeed],
    needs: Sequence[EngineNeed],
    request: PlacementRequest,
) -> tuple[Kind, str]:
    """The kind of placement, and why it is this one."""
    if len(needs) == 1:
        return "one", "the only engine"
    serves_both = any(need.answers and need.judges for need in needs)
    if request.kind == "turns" and serves_both:
        raise UserError(
            "engine.placement=turns: use --set engine.placement=together; the candidate's engine "
            "also serves a judge, so both turns need it"
        )
    can_take_turns = any(need.answers for need in needs) and not serves_both
    if request.kind == "turns" and can_take_turns:
        return "turns", "as engine.placement says"
    if request.candidate_devices or request.judge_devices:
        return "split", "on the devices that you named"
    if _have_own_gpus(devices, here):
        return "split", "each has its own"
    if request.kind == "together":
        return "together", "as engine.placement says"
    if _fit(devices, here):
        why = "use --set engine.placement=turns if they do not fit"
        return "together", "there is room for all at once" if devices.memory else why
    if can_take_turns:
        why = "too large for both at once, so the candidate answers, then the judge judges"
        return "turns", why
    why = "they may not fit at once, but all are needed at the same time"
    return "together", why


def _have_own_gpus(devices: Devices, needs: Sequence[EngineNeed]) -> bool:
    ranks = sum(need.parallel.ranks for need in needs)
    return devices.kind == "gpu" and ranks <= len(devices.ids)


def _fit(devices: Devices, needs: Sequence[EngineNeed]) -> bool:
    """True if engines can share the devices; what is not known counts as nothing."""
    memory = devices.memory or math.inf
    if devices.kind == "cpu":
        has_cores = len(devices.ids) >= len(_writers(needs))
        return has_cores and _cpu_memory(needs) <= CPU_USABLE * memory
    needed = 0.0
    for need in needs:
        size = (need.on_each_gpu + OVERHEAD[need.is_encoder]) / memory
        needed += need.parallel.memory or size
    # The user's shares may take what placement itself would leave free.
    named = sum(need.parallel.memory or 0.0 for need in needs)
    return needed <= max(_usable(devices), named)


def _parts(
    devices: Devices,
    candidates: list[EngineNeed],
    judges: list[EngineNeed],
    request: PlacementRequest,
) -> Iterable[tuple[Devices, list[EngineNeed]]]:
    """The devices that the user named, or the rest of them, and the engines of each role."""
    own, judging = request.candidate_devices, request.judge_devices
    both = set(own) & set(judging)
    if both:
        raise UserError(
            f"candidate.devices and judge.devices both name {','.join(sorted(both))}: name "
            "different devices, or none"
        )
    for role, ids in (("candidate", own), ("judge", judging)):
        for device in ids:
            # A slice of a GPU has a name, which only CUDA knows.
            if devices.ids and device.isdecimal() and device not in devices.ids:
                raise UserError(
                    f"{role}.devices: no free device {device} here, only "
                    f"{','.join(devices.ids)}; CUDA_VISIBLE_DEVICES may name GPUs that others use"
                )
    rest = tuple(name for name in devices.ids if name not in (*own, *judging))
    for role, ids, group in (
        ("candidate", own, candidates),
        ("judge", judging, judges),
    ):
        if group and devices.ids and not (ids or rest):
            raise UserError(
                f"{role}.devices: name some for {group[0]}: the others have all"
            )
        kind = "gpu" if ids and devices.kind == "unknown" else devices.kind
        yield replace(devices, kind=kind, ids=ids or rest), group


def _at_once(devices: Devices, needs: Sequence[EngineNeed]) -> Places:
    """Place engines that run at the same time, on GPUs of their own if there are enough."""
    if devices.kind == "cpu":
        return _on_cores(devices, needs)
    if not _have_own_gpus(devices, needs):
        return _on_gpus(devices, needs)
    places: Places = {}
    ids = devices.ids
    for need in needs:
        own, ids = ids[: need.parallel.ranks], ids[need.parallel.ranks :]
        places |= _on_gpus(replace(devices, ids=own), [need])
    return places


def _on_gpus(devices: Devices, needs: Sequence[EngineNeed]) -> Places:
    """Share the same GPUs: each engine gets its weights and an equal part of the rest.

    An encoder, which has no cache to fill, gets no more than it needs. Where the size of each
    cache is known, engines are told it, so that all can load at once.
    """
    _require_room(devices, needs)
    memory = devices.memory or math.inf
    free = [need for need in needs if not need.parallel.memory]
    named = sum(need.parallel.memory or 0.0 for need in needs)
    usable = max(SPARE, _usable(devices) - named)
    total = sum(need.on_each_gpu for need in free) / memory
    shrunk = min(1.0, usable / total) if total else 1.0  # the user wants all at once
    rest = max(0.0, usable - total)
    small = [need for need in free if need.is_encoder and devices.memory]
    if len(needs) == 1:
        small = []
    least = min(OVERHEAD[True] / memory, rest / max(1, len(free)))
    equal = (rest - least * len(small)) / max(1, len(free) - len(small))

    places: Places = {}
    for need in needs:
        own = devices.ids[: need.parallel.ranks]
        share = cache = None
        if need in free:
            part = least if need in small else equal
            share = round(max(0.01, shrunk * need.on_each_gpu / memory + part), 2)
            cache = _cache(need, share * memory, memory)
        places[need] = Assignment(
            own, memory=share, cache=cache, is_eager=need.is_encoder
        )
    caches = [assigned.cache for assigned in places.values()]
    if len(needs) > 1 and None not in caches:
        return places
    return {need: replace(where, cache=None) for need, where in places.items()}


def _cache(need: EngineNeed, share: float, memory: float) -> float | None:
    """GiB for the cache in an engine's share of a GPU; None if it had better measure."""
    if need.weights is None or math.isinf(memory):
        return None
    # CUDA, activations, and the probabilities of 1,024 answers at once, else of 256.
    working = 8.0 if memory >= LARGE else 3.0
    if need.is_encoder:
        working = 1.5
    cache = math.floor(10 * (share - need.on_each_gpu - working)) / 10
    if need.is_encoder:
        return max(0.1, cache)
    return cache if cache >= LEAST_CACHE else None


def _require_room(devices: Devices, needs: Sequence[EngineNeed]) -> None:
    """Raise UserError if it is certain that the engines do not fit at the same time."""
    for need in needs:
        ranks = need.parallel.ranks
        if devices.ids and ranks > len(devices.ids):
            raise UserError(
                f"{need}: name more devices, or spread it over fewer with its arguments: it has "
                f"{','.join(devices.ids)}, and needs {ranks}"
            )
    # With arguments, weights may take less.
    certain = [need for need in needs if not need.parallel.is_given]
    least = sum(need.on_each_gpu + 1 for need in certain)
    if not devices.memory or least <= _usable(devices) * devices.memory:
        return
    names = " and ".join(map(str, certain))
    if len(certain) == 1:
        remedy = (
            "use a smaller model, a larger GPU, or several with "
            '--set candidate.args="--tensor-parallel-size N" (or judge.args)'
        )
    elif any(need.answers and not need.judges for need in needs):
        remedy = "use --set engine.placement=turns"
    else:
        remedy = "use a smaller judge, or more or larger GPUs"
    verb = "does" if len(certain) == 1 else "do"
    raise UserError(f"{remedy}: {names} {verb} not fit on {devices.name}")


def _usable(devices: Devices) -> float:
    """Share of a GPU's memory that engines may plan with."""
    return max(SPARE, min(USABLE, 1 - devices.used - SPARE))


def _writers(needs: Sequence[EngineNeed]) -> list[EngineNeed]:
    """The engines that compute all the time: a classifier beside them is rarely busy."""
    return [need for need in needs if not need.classifies] or list(needs)


def _cpu_memory(needs: Sequence[EngineNeed]) -> float:
    """GiB that engines take on a CPU, with the smallest caches."""
    return sum((need.weights or 0.0) + CPU_OVERHEAD + LEAST_CACHE for need in needs)


def _on_cores(devices: Devices, needs: Sequence[EngineNeed]) -> Places:
    """Share a few cores between all engines, which are rarely busy at once; divide more cores.

    A classifier beside a generating model gets all cores, and one thread.
    """
    writers = _writers(needs)
    are_shared = len(devices.ids) <= max(FEW, len(writers) - 1)
    free = CPU_USABLE * (devices.memory or 0.0) - _cpu_memory(needs)
    room = LEAST_CACHE + free / len(needs)
    places: Places = {}
    for need in needs:
        ids = devices.ids
        if need in writers and not are_shared:
            ids = ids[writers.index(need) :: len(writers)]
        useful = 4.0 if need.weights is None else need.weights / 2
        threads = _threads(devices, need, len(ids)) if need in writers else 1
        places[need] = Assignment(
            cores=tuple(map(int, ids)),
            cache=max(LEAST_CACHE, math.floor(min(room, math.ceil(useful)))),
            threads=threads,
            shared=need in writers and are_shared and len(writers) > 1,
        )
    return places


def _threads(devices: Devices, need: EngineNeed, cores: int) -> int:
    """As many threads as cores, or one less: HTTP and the scheduler need time as well.

    On two cores, a second thread makes a model of 135 M parameters 1.6 times as fast.
    """
    threads = math.floor(cores * min(1.0, devices.quota / len(devices.ids)))
    is_toy = need.weights is not None and need.weights < TOY
    if is_toy or threads > FEW:
        threads -= 1
    return max(1, threads)


def must_load_alone(places: Sequence[Assignment]) -> bool:
    """True if engines have to load one after the other.

    Those that share a GPU measure its memory, unless the size of each cache is given; two that
    measure at once fail.
    """
    if len(places) < 2 or all(where.cache is not None for where in places):
        return False
    taken = [device for where in places for device in where.devices]
    return len(set(taken)) < len(taken) or not all(where.devices for where in places)


_CGROUP = Path("/sys/fs/cgroup")
"""Where Linux shows a container its own limits."""


def cpu() -> Devices:
    """The cores that this process may use, their time limit, and the free memory."""
    usable: Iterable[int] = range(psutil.cpu_count() or 1)
    if hasattr(os, "sched_getaffinity"):  # macOS has none
        usable = os.sched_getaffinity(0)
    free = float(psutil.virtual_memory().available)
    quota = math.inf
    with suppress(OSError, ValueError):  # "max" is none
        most, period = map(int, (_CGROUP / "cpu.max").read_text().split())
        quota = most / period
    with suppress(OSError, ValueError):
        most = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
        lines = (_CGROUP / "memory.stat").read_text().splitlines()
        counts = {name: int(size) for name, size in map(str.split, lines)}
        # Cached files give way when memory is needed.
        files = counts.get("active_file", 0) + counts.get("inactive_file", 0)
        free = min(free, most - used + files)
    cores = tuple(map(str, sorted(usable)))
    return Devices("cpu", cores, free / 2**30, quota=quota)


def gpus() -> Devices:
    """The GPUs in CUDA_VISIBLE_DEVICES; without it the free ones, or all if none is free.

    NVML knows those of Nvidia, and slices by their names. Others are unknown.
    """
    try:
        import pynvml  # of nvidia-ml-py, which comes with the extra [vllm]

        pynvml.nvmlInit()
    except (
        Exception
    ):  # no package, no driver, or a broken one: the engine reports it best
        return UNKNOWN
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(number) for number in range(pynvml.nvmlDeviceGetCount())]
    if visible is not None:
        given = [name.strip() for name in visible.split(",")]
        names = [name for name in given if name not in ("", "-1")]
    found = {name: _memory(pynvml, name) for name in names}
    free = {name: sizes for name, sizes in found.items() if sizes[1] <= MOST_USED}
    if visible is not None or not free:
        free = found
    if not free:
        return UNKNOWN
    return Devices(
        "gpu",
        tuple(free),
        min(memory for memory, _ in free.values()) or None,
        max(used for _, used in free.values()),
    )


def _memory(pynvml: Any, name: str) -> tuple[float, float]:
    """GiB of a GPU's memory, and the share in use; zeros if NVML cannot tell."""
    with suppress(pynvml.NVMLError):
        if name.isdecimal():
            handle = pynvml.nvmlDeviceGetHandleByIndex(int(name))
        else:
            handle = pynvml.nvmlDeviceGetHandleByUUID(name)
        sizes = pynvml.nvmlDeviceGetMemoryInfo(handle)
        return sizes.total / 2**30, sizes.used / sizes.total
    return 0.0, 0.0
