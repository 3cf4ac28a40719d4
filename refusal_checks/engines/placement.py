"""Choose where engines run: which devices each one gets, and whether all run at the same time.

Each engine gets its own GPUs if there are enough. Otherwise all share the devices if they fit, with
memory for their weights and an equal part of the rest. Otherwise they take turns: the candidate
answers everything, then the judge judges. The user's settings win: ``candidate.devices``,
``judge.devices``, ``engine.placement``, and the engines' own arguments, the only way to spread a
model over several GPUs or machines.
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

USABLE, SPARE = 0.9, 0.05
"""Share of a GPU's memory that engines may plan with, and the share to leave free on top of what
others use: vLLM does not start if less than its share is free."""

OVERHEAD = {False: 4.0, True: 2.0}
"""GiB that an engine needs on a GPU besides its weights, with a small cache; by ``classifies``."""

LARGE = 70.0
"""From this GPU size in GiB on, vLLM computes more at once and needs more working memory."""

LEAST_CACHE = 1
"""With a smaller cache than this in GiB, let the engine measure: it may get a little more."""

MOST_USED = 0.2
"""A GPU with a larger share of its memory in use is left to others."""

CPU_USABLE, CPU_OVERHEAD = 0.8, 2.5
"""Share of the free memory that engines on a CPU may plan with, and GiB of vLLM and torch."""

FEW = 4
"""Up to this many cores, all engines share all of them. On two cores, two models of 135 M
parameters are 1.5 times as fast that way as with a core each."""


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
        """Describe the devices for messages."""
        if self.kind == "cpu":
            return f"{count(len(self.ids), 'CPU core')} with {self.memory:.0f} GiB free"
        if not self.ids:
            return "devices whose memory is not known here"
        memory = f" of {self.memory:.0f} GiB" if self.memory else ""
        return f"GPU {','.join(self.ids)}{memory}"


UNKNOWN = Devices("unknown")


@dataclass(frozen=True)
class Parallelism:
    """What an engine's arguments say about devices and their memory.

    Attributes:
        shards, copies: GPUs that one copy of the model is split over, and copies.
        memory: share of each GPU's memory; None if not given.
    """

    shards: int = 1
    copies: int = 1
    memory: float | None = None

    @property
    def ranks(self) -> int:
        """GPUs that the engine takes, as vLLM calls its workers."""
        return self.shards * self.copies


@dataclass(frozen=True, eq=False)
class EngineNeed:
    """An engine to be placed. Equal needs of the same model remain two engines.

    Attributes:
        weights: GiB of the model's weights, once loaded; None if unknown.
        answers, judges: whether it serves the candidate, and whether a judge.
        classifies: True if it reads each text once and generates nothing.
    """

    model: str
    parallel: Parallelism = field(default_factory=Parallelism)
    weights: float | None = None
    answers: bool = True
    judges: bool = False
    classifies: bool = False

    @property
    def gib_per_gpu(self) -> float:
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
        is_eager: True to start sooner instead of compiling for speed.
        loads_alone: True if it measures the memory that it shares: two that do so at once fail.
        threads: compute threads on a CPU; None for the engine's default.
        shared: True if other engines compute on the same cores, so that no thread may busy-wait.
        turn: 0, or 1 for an engine that starts once those of turn 0 have stopped.
    """

    devices: tuple[str, ...] = ()
    cores: tuple[int, ...] = ()
    memory: float | None = None
    cache: float | None = None
    is_eager: bool = False
    loads_alone: bool = False
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
    """Where each engine runs, in the order of the needs; ``why`` explains it in one line."""

    kind: Kind
    why: str
    places: tuple[Assignment, ...] = ()

    @property
    def turns(self) -> int:
        """How many groups of engines run one after another."""
        return 1 + max((place.turn for place in self.places), default=0)


def place(
    devices: Devices, needs: Sequence[EngineNeed], request: PlacementRequest
) -> Placement:
    """Choose where engines run; a pure function of its arguments.

    Raises:
        UserError: the user's settings do not fit these devices.
    """
    if not needs:
        return Placement("none", "no engine to start here")
    # Ray, or other machines, carry what is spread over more GPUs than there are here.
    most = len(devices.ids) if devices.kind == "gpu" else math.inf
    here = [need for need in needs if need.parallel.ranks <= most]
    kind, why = _choose_kind(devices, here, needs, request)
    candidates = [need for need in here if need.answers]
    judges = [need for need in here if not need.answers]
    groups = [(devices, here)]
    if kind == "turns":
        groups = [(devices, candidates), (devices, judges)]
    elif request.candidate_devices or request.judge_devices:
        groups = _split_by_role(devices, candidates, judges, request)
    places = dict.fromkeys(needs, WHOLE_MACHINE)
    for turn, (part, group) in enumerate(groups):
        for need, assigned in _place_group(part, group).items():
            places[need] = replace(assigned, turn=turn if kind == "turns" else 0)
    words = ", ".join(f"{need}{where}" for need, where in places.items())
    why = f"{words}, on {devices.name}: {why}"
    return Placement(kind, why, tuple(places.values()))


def _choose_kind(
    devices: Devices,
    here: Sequence[EngineNeed],
    needs: Sequence[EngineNeed],
    request: PlacementRequest,
) -> tuple[Kind, str]:
    """The kind of placement, and why it is this one."""
    if len(needs) == 1:
        return "one", "the only engine"
    # Equal models with equal arguments share one engine.
    serves_both = any(need.answers and need.judges for need in needs)
    can_take_turns = any(need.answers for need in needs) and not serves_both
    if request.kind == "turns" and serves_both:
        raise UserError(
            "engine.placement=turns: use --set engine.placement=together; the candidate's engine "
            "also serves a judge, so both turns need it"
        )
    if request.kind == "turns" and can_take_turns:
        return "turns", "as engine.placement says"
    if request.candidate_devices or request.judge_devices:
        return "split", "on the devices that you named"
    if _have_own_gpus(devices, here):
        return "split", "each has its own"
    # After the GPUs of their own: "together" only rules out turns.
    if request.kind == "together":
        return "together", "as engine.placement says"
    if _fit(devices, here):
        why = "use --set engine.placement=turns if they do not fit"
        return "together", "there is room for all at once" if devices.memory else why
    if can_take_turns:
        why = "both do not fit at once, so the judge starts after the last answer"
        return "turns", why
    return "together", "they may not fit, but all are needed at the same time"


def _have_own_gpus(devices: Devices, needs: Sequence[EngineNeed]) -> bool:
    ranks = sum(need.parallel.ranks for need in needs)
    return devices.kind == "gpu" and ranks <= len(devices.ids)


def _fit(devices: Devices, needs: Sequence[EngineNeed]) -> bool:
    """True if engines can share the devices; unknown sizes count as zero."""
    if devices.kind == "cpu":
        has_cores = len(devices.ids) >= len(_writers(needs))
        return has_cores and _cpu_memory(needs) <= CPU_USABLE * (devices.memory or 0.0)
    least = sum(_least(devices, need) for need in needs)
    # The user's shares may take what placement itself would leave free.
    return least <= _usable(devices) or all(need.parallel.memory for need in needs)


def _least(devices: Devices, need: EngineNeed) -> float:
    """The user's share of a GPU's memory for an engine, else the smallest that works."""
    size = need.gib_per_gpu + OVERHEAD[need.classifies]
    return need.parallel.memory or size / (devices.memory or math.inf)


def _split_by_role(
    devices: Devices,
    candidates: list[EngineNeed],
    judges: list[EngineNeed],
    request: PlacementRequest,
) -> list[tuple[Devices, list[EngineNeed]]]:
    """The devices that the user named for the engines of each role."""
    named = (*request.candidate_devices, *request.judge_devices)
    parts = []
    for role, ids, group in (
        ("candidate", request.candidate_devices, candidates),
        ("judge", request.judge_devices, judges),
    ):
        if group and not ids:
            raise UserError(
                f"{role}.devices: name devices for {group[0]}, too, or for none"
            )
        for device in ids:
            if named.count(device) > 1:
                raise UserError(
                    f"{role}.devices: name other devices than for the other role: both have "
                    f"{device}"
                )
            # A slice of a GPU has a name, which only CUDA knows.
            if devices.ids and device.isdecimal() and device not in devices.ids:
                raise UserError(
                    f"{role}.devices: no free device {device} here, only "
                    f"{','.join(devices.ids)}; CUDA_VISIBLE_DEVICES may name GPUs that others use"
                )
        part = replace(devices, ids=ids)
        # Who names devices has GPUs, even if NVML lists none, as on AMD's.
        if part.kind == "unknown":
            part = replace(part, kind="gpu")
        parts.append((part, group))
    return parts


def _place_group(devices: Devices, needs: Sequence[EngineNeed]) -> Places:
    """Place engines that run at the same time, on GPUs of their own if there are enough."""
    if devices.kind == "cpu":
        return _share_cores(devices, needs)
    if not _have_own_gpus(devices, needs):
        return _share_gpus(devices, needs)
    places: Places = {}
    ids = devices.ids
    for need in needs:
        own, ids = ids[: need.parallel.ranks], ids[need.parallel.ranks :]
        places |= _share_gpus(replace(devices, ids=own), [need])
    return places


def _share_gpus(devices: Devices, needs: Sequence[EngineNeed]) -> Places:
    """Share the same GPUs: each engine gets the least that it needs and an equal part of the rest.

    A classifier, which keeps no cache, gets none of the rest. Where the size of each cache is
    known, engines are told it, so that all can load at once.
    """
    _require_room(devices, needs)
    growing = [need for need in needs if not need.parallel.memory]
    if devices.memory:
        sized = [need for need in growing if need.classifies and need.weights]
        growing = [need for need in growing if need not in sized]
        growing = growing or sized  # classifiers alone share the rest
    rest = _usable(devices) - sum(_least(devices, need) for need in needs)
    places: Places = {}
    for need in needs:
        share = _least(devices, need)
        if need in growing:
            # The rest is negative where engines may not fit, and all are needed.
            share = max(0.01, share + rest / len(growing))
        places[need] = Assignment(
            devices=devices.ids[: need.parallel.ranks],
            memory=round(share, 3),
            cache=_cache(devices, need, share),
            is_eager=need.classifies,
        )
    all_caches_known = None not in [where.cache for where in places.values()]
    if len(needs) > 1 and all_caches_known:
        return places
    for need, where in places.items():
        places[need] = replace(where, cache=None, loads_alone=len(needs) > 1)
    return places


def _cache(devices: Devices, need: EngineNeed, share: float) -> float | None:
    """GiB for the cache in an engine's share of a GPU; None if the engine should measure it."""
    if not devices.memory or need.weights is None or need.parallel.memory:
        return None
    if need.classifies:
        return 0.5
    # CUDA, activations, and the probabilities of 1,024 answers at once, else of 256.
    working = 8.0 if devices.memory >= LARGE else 3.0
    cache = math.floor(10 * (share * devices.memory - need.gib_per_gpu - working)) / 10
    return cache if cache >= LEAST_CACHE else None


def _require_room(devices: Devices, needs: Sequence[EngineNeed]) -> None:
    """Raise UserError if the engines certainly do not fit at the same time."""
    for need in needs:
        ranks = need.parallel.ranks
        if devices.ids and ranks > len(devices.ids):
            raise UserError(
                f"{need}: name more devices, or spread it over fewer with its arguments: it has "
                f"{','.join(devices.ids)}, and needs {ranks}"
            )
    # Where the user says a share, weights may take less: they may be quantised.
    sized = [need for need in needs if not need.parallel.memory]
    least = sum(need.gib_per_gpu + 1 for need in sized)
    if devices.memory and least > _usable(devices) * devices.memory:
        raise UserError(
            "use smaller models, or more or larger GPUs, over which --set candidate.args="
            '"--tensor-parallel-size N" (or judge.args) spreads a model; candidate and judge can '
            "take turns (engine.placement=turns); a model that is quantised as it loads needs "
            f"--gpu-memory-utilization SHARE, too: {' and '.join(map(str, sized))} do not fit on "
            f"{devices.name}"
        )


def _usable(devices: Devices) -> float:
    """Share of a GPU's memory that engines may plan with."""
    return max(SPARE, min(USABLE, 1 - devices.used - SPARE))


def _writers(needs: Sequence[EngineNeed]) -> list[EngineNeed]:
    """The engines that compute all the time, unlike a classifier beside them."""
    return [need for need in needs if not need.classifies] or list(needs)


def _cpu_memory(needs: Sequence[EngineNeed]) -> float:
    """GiB that engines take on a CPU, with the smallest caches."""
    return sum((need.weights or 0.0) + CPU_OVERHEAD + LEAST_CACHE for need in needs)


def _share_cores(devices: Devices, needs: Sequence[EngineNeed]) -> Places:
    """Let all engines share a few cores, as they are rarely busy at once; split more cores.

    A classifier beside a generating model gets all cores, and one thread.
    """
    writers = _writers(needs)
    are_shared = len(devices.ids) <= FEW
    free = CPU_USABLE * (devices.memory or 0.0) - _cpu_memory(needs)
    cache_room = LEAST_CACHE + free / len(needs)
    places: Places = {}
    for need in needs:
        ids = devices.ids
        if need in writers and not are_shared:
            ids = ids[writers.index(need) :: len(writers)]
        # More than half of the weights' size is never filled by a run's prompts; a model of unknown
        # size counts as one of 8 GiB.
        useful = math.ceil((need.weights or 8.0) / 2)
        threads = _threads(devices, len(ids)) if need in writers else 1
        places[need] = Assignment(
            cores=tuple(map(int, ids)),
            cache=max(LEAST_CACHE, math.floor(min(cache_room, useful))),
            threads=threads,
            shared=need in writers and are_shared and len(writers) > 1,
        )
    return places


def _threads(devices: Devices, cores: int) -> int:
    """As many threads as cores, or one fewer with many cores, for HTTP and the scheduler.

    On two cores, a second thread makes a model of 135 M parameters 1.6 times as fast.
    """
    threads = math.floor(cores * min(1.0, devices.quota / len(devices.ids)))
    return max(1, threads - 1 if threads > FEW else threads)


_CGROUP = Path("/sys/fs/cgroup")
"""Where Linux shows a container its limits."""


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
    """The GPUs in CUDA_VISIBLE_DEVICES; if unset, the free ones, or all if none is free.

    NVML knows only Nvidia's GPUs, and slices by their names.
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
    # Who set the variable wants those, whoever else uses them.
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
