"""What this machine has to run engines on."""

import csv
import math
import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import psutil

_CGROUPS = Path("/sys/fs/cgroup")
"""Where Linux shows a container its own limits."""


@dataclass(frozen=True)
class Devices:
    """What engines can run on.

    Attributes:
        kind: ``gpu``, ``cpu``, or ``unknown`` where nothing here tells what there is.
        ids: GPUs as CUDA_VISIBLE_DEVICES names them, or numbers of CPU cores.
        memory: GiB, of the smallest GPU, or free for engines on a CPU; None if unknown.
        busy: GPUs that were left out because others use them.
        used: share of a device's memory that others hold, the largest of them, in [0, 1].
        quota: cores' worth of time that a container may use at once; None without a limit.
    """

    kind: Literal["gpu", "cpu", "unknown"]
    ids: tuple[str, ...] = ()
    memory: float | None = None
    busy: tuple[str, ...] = ()
    used: float = 0.0
    quota: float | None = None


NONE = Devices("unknown")
"""For engines that need none."""


def cpu() -> Devices:
    """The cores that this process may use, how much of their time, and the free memory."""
    usable = (
        os.sched_getaffinity(0)
        if hasattr(os, "sched_getaffinity")
        else range(psutil.cpu_count() or 1)
    )
    cores = tuple(map(str, sorted(usable)))
    free = min(psutil.virtual_memory().available, _left_to_container())
    return Devices("cpu", cores, free / 2**30, quota=_time_of_container())


def _numbers(*names: str) -> list[int]:
    return [
        int(word) for name in names for word in (_CGROUPS / name).read_text().split()
    ]


def _time_of_container() -> float | None:
    """Cores' worth of time that a container may use at once; None without a limit."""
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        with suppress(OSError, ValueError):  # "max" is none
            most, period = _numbers(*names)
            return most / period if most > 0 else None
    return None


def _left_to_container() -> float:
    """Bytes that a container's limit leaves, caches included; infinite without a limit."""
    for limit, used, stat, prefix in (
        ("memory.max", "memory.current", "memory.stat", ""),
        (
            "memory/memory.limit_in_bytes",
            "memory/memory.usage_in_bytes",
            "memory/memory.stat",
            "total_",
        ),
    ):
        with suppress(OSError, ValueError):  # "max" is none
            most, taken = _numbers(limit, used)
            counts = dict(
                line.split() for line in (_CGROUPS / stat).read_text().splitlines()
            )
            files = (
                counts.get(f"{prefix}{kind}_file", 0) for kind in ("active", "inactive")
            )
            return most - taken + sum(map(int, files))
    return math.inf


class _Gpu(NamedTuple):
    """One line of nvidia-smi; memory in GiB, 0 if unknown."""

    number: str = ""
    uuid: str = ""
    memory: float = 0.0
    share_used: float = 0.0


def gpus() -> Devices:
    """The GPUs that CUDA_VISIBLE_DEVICES names; without it the free ones, or all if none is."""
    found, limit = _query(), os.environ.get("CUDA_VISIBLE_DEVICES")
    busy: tuple[str, ...] = ()
    if limit is None:
        # One of which more is in use counts as taken by others.
        free = [gpu for gpu in found if gpu.share_used <= 0.2] or found
        busy = tuple(gpu.number for gpu in found if gpu not in free)
        chosen = {gpu.number: gpu for gpu in free}
    else:
        names = [
            name for part in limit.split(",") if (name := part.strip()) and name != "-1"
        ]
        chosen = {name: _named(found, name) for name in names}
    if not chosen:
        return NONE
    memory = min(gpu.memory for gpu in chosen.values())
    used = max(gpu.share_used for gpu in chosen.values())
    return Devices("gpu", tuple(chosen), memory or None, busy, used)


def _named(found: Sequence[_Gpu], name: str) -> _Gpu:
    """The GPU that a part of CUDA_VISIBLE_DEVICES means: by number, or by the start of its UUID."""
    for gpu in found:
        if name == gpu.number or (not name.isdecimal() and gpu.uuid.startswith(name)):
            return gpu
    return _Gpu()


def _query() -> list[_Gpu]:
    fields = "index,uuid,memory.total,memory.used"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    found = []
    rows = csv.reader(
        done.stdout.decode(errors="replace").splitlines(), skipinitialspace=True
    )
    for number, uuid, *sizes in (row for row in rows if len(row) == 4):
        memory, used = 0.0, 0.0
        with suppress(
            ValueError
        ):  # "[N/A]", which devices that share the machine's memory say
            memory, used = (float(mebibytes) / 1024 for mebibytes in sizes)
        found.append(_Gpu(number, uuid, memory, used / memory if memory else 0.0))
    return found
