"""Find the devices of this machine that engines can run on."""

import csv
import math
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import psutil

_CGROUPS = Path("/sys/fs/cgroup")
"""Where Linux shows a container its own limits."""


@dataclass(frozen=True)
class Devices:
    """The devices that engines can run on.

    Attributes:
        kind: ``gpu``, ``cpu``, or ``unknown`` if no tool here lists the devices.
        ids: GPUs as in CUDA_VISIBLE_DEVICES, or numbers of CPU cores.
        memory: GiB of the smallest GPU, or GiB free for engines on a CPU; None if unknown.
        busy: GPUs left out because other processes use them.
        used: share of a device's memory that other processes hold, in [0, 1]; the largest of all
            devices.
        quota: CPU time, in cores, that a container may use at once; None without a limit.
        are_slices: True if GPUs are divided (MIG): each id is a slice, and ``memory`` a slice's.
    """

    kind: Literal["gpu", "cpu", "unknown"]
    ids: tuple[str, ...] = ()
    memory: float | None = None
    busy: tuple[str, ...] = ()
    used: float = 0.0
    quota: float | None = None
    are_slices: bool = False


NONE = Devices("unknown")
"""For engines that need none."""


def cpu() -> Devices:
    """The cores that this process may use, their time limit, and the free memory."""
    usable: Iterable[int] = range(psutil.cpu_count() or 1)
    if hasattr(os, "sched_getaffinity"):  # macOS has none
        usable = os.sched_getaffinity(0)
    cores = tuple(map(str, sorted(usable)))
    free = min(psutil.virtual_memory().available, _left_to_container())
    return Devices("cpu", cores, free / 2**30, quota=_time_of_container())


def _numbers(*names: str) -> list[int]:
    """Read the numbers in some of a container's control files."""
    numbers: list[int] = []
    for name in names:
        numbers += map(int, (_CGROUPS / name).read_text().split())
    return numbers


def _time_of_container() -> float | None:
    """CPU time, in cores, that a container may use at once; None without a limit."""
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        with suppress(OSError, ValueError):  # "max" is none
            most, period = _numbers(*names)
            return most / period if most > 0 else None
    return None


_MEMORY = (
    ("memory.max", "memory.current", "memory.stat", ""),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_",
    ),
)
"""Of cgroups 2 and 1: files with limit, use and statistics, and how these names begin."""


def _left_to_container() -> float:
    """Bytes that a container's memory limit leaves, caches included; infinite without one."""
    for limit, usage, statistics, prefix in _MEMORY:
        with suppress(OSError, ValueError):  # "max" is none
            most, used = _numbers(limit, usage)
            lines = (_CGROUPS / statistics).read_text().splitlines()
            counts = dict(line.split() for line in lines)
            # Cached files give way when memory is needed.
            active = int(counts.get(f"{prefix}active_file", 0))
            inactive = int(counts.get(f"{prefix}inactive_file", 0))
            return most - used + active + inactive
    return math.inf


MOST_USED = 0.2
"""Share of a GPU's memory in use above which it counts as taken by others."""


SLICE = 0.95
"""Part of a slice's memory that its profile's name (``1g.10gb``) surely stands for."""


class _Gpu(NamedTuple):
    """A GPU, or a slice of one, the ``parent``; memory in GiB, 0 if unknown."""

    number: str = ""
    uuid: str = ""
    memory: float = 0.0
    share_used: float = 0.0
    parent: str = ""

    @property
    def is_slice(self) -> bool:
        return bool(self.parent)


def gpus() -> Devices:
    """The GPUs in CUDA_VISIBLE_DEVICES; without it the free ones, or all if none is free."""
    all_gpus, limit = _query(), os.environ.get("CUDA_VISIBLE_DEVICES")
    busy: tuple[str, ...] = ()
    if limit is None:
        free = [gpu for gpu in all_gpus if gpu.share_used <= MOST_USED] or all_gpus
        busy = tuple(gpu.number for gpu in all_gpus if gpu not in free)
        visible = {gpu.number: gpu for gpu in free}
    else:
        visible = {}
        for part in limit.split(","):
            name = part.strip()
            if name not in ("", "-1"):
                visible[name] = _named(all_gpus, name)
    if not visible:
        return NONE
    memory = min(gpu.memory for gpu in visible.values())
    used = max(gpu.share_used for gpu in visible.values())
    are_slices = any(gpu.is_slice for gpu in visible.values())
    return Devices(
        "gpu", tuple(visible), memory or None, busy, used, are_slices=are_slices
    )


def _named(gpus: Sequence[_Gpu], name: str) -> _Gpu:
    """The GPU that an item of CUDA_VISIBLE_DEVICES means: a number, or the start of a UUID."""
    for gpu in gpus:
        if name == gpu.number or (not name.isdecimal() and gpu.uuid.startswith(name)):
            return gpu
    # A divided GPU's own number stands for one of its slices.
    of_gpu = [gpu for gpu in gpus if gpu.parent == name]
    return min(of_gpu, key=lambda gpu: gpu.memory, default=_Gpu())


def _query() -> list[_Gpu]:
    """All GPUs that nvidia-smi lists, with slices in place of divided ones."""
    fields = "index,uuid,memory.total,memory.used,mig.mode.current"
    lines = _nvidia_smi(f"--query-gpu={fields}", "--format=csv,noheader,nounits")
    gpus: list[_Gpu] = []
    for row in csv.reader(lines, skipinitialspace=True):
        if len(row) != 5:
            continue
        number, uuid, total, in_use, division = row
        if division == "Enabled":
            gpus += _slices(number)
            continue
        memory, used = 0.0, 0.0
        # Devices that share the machine's memory say "[N/A]".
        with suppress(ValueError):
            memory, used = float(total) / 1024, float(in_use) / 1024
        share_used = used / memory if memory else 0.0
        gpus.append(_Gpu(number, uuid, memory, share_used))
    return gpus


_SLICE = re.compile(r"\s+MIG \S*?(\d+)gb\S*\s+Device\s+\d+: \(UUID: (MIG-[^)]+)\)")
"""A line of ``nvidia-smi -L`` below its GPU's: ``  MIG 1g.10gb     Device  0: (UUID: MIG-...)``."""


def _slices(number: str) -> list[_Gpu]:
    """The slices of a GPU; nothing tells how much of their memory is in use."""
    slices = []
    gpu = ""
    for line in _nvidia_smi("-L"):
        if line.startswith("GPU "):
            gpu = line.removeprefix("GPU ").split(":")[0]
        found = _SLICE.match(line)
        if found and gpu == number:
            memory = SLICE * float(found[1])
            slices.append(_Gpu(found[2], found[2], memory, parent=number))
    return slices


def _nvidia_smi(*args: str) -> list[str]:
    """The lines that it prints; none if it cannot be run."""
    command = ["nvidia-smi", *args]
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.decode(errors="replace").splitlines()
