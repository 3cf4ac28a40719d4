"""Whether this machine can run the engine: memory, disks, its installation, its devices."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from refusal_checks.core.errors import ModelError
from refusal_checks.engines import devices
from refusal_checks.engines.base import Engine
from refusal_checks.engines.kinds import require_program
from refusal_checks.run.doctor.finding import Finding, Level

GIB = 2**30

LEAST_MEMORY = 4.0
"""GiB of memory below which vLLM hardly starts: its processes take 2 without any model."""

LEAST_DISK = 20.0
"""GiB of disk under which a model of a few billion parameters does not fit."""

IMPORT_TIMEOUT = 300.0
"""Seconds that importing an engine may take: on a cold disk, a minute."""


def memory() -> Finding:
    """Whether an engine's processes have room."""
    free = devices.cpu().memory or 0.0
    said = f"{free:.1f} GiB free"
    if free < LEAST_MEMORY:
        return Finding(Level.WARN, "memory", said, "an engine needs more; end other processes")
    return Finding(Level.OK, "memory", said)


def disks(store: Path) -> Iterator[Finding]:
    """Whether answers can be stored and weights downloaded."""
    home = Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()
    for what, path in (("disk: store", store), ("disk: models", home)):
        there = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
        free = shutil.disk_usage(there).free / GIB
        said = f"{free:.0f} GiB free at {there}"
        if free < 1:
            yield Finding(Level.FAIL, what, said, "free some space")
        elif what == "disk: models" and free < LEAST_DISK:
            yield Finding(Level.WARN, what, said, "weights may not fit; set HF_HOME to another")
        else:
            yield Finding(Level.OK, what, said)


def engine(engine: Engine, program: Sequence[str], needed: bool) -> Iterator[Finding]:
    """The engine and its devices; attached servers and recordings need neither."""
    bad = Level.FAIL if needed else Level.WARN
    finding = _installed(engine, program, bad)
    yield finding
    yield _devices(engine, bad if finding.level is Level.OK else Level.WARN)


def _installed(engine: Engine, program: Sequence[str], bad: Level) -> Finding:
    try:
        require_program(engine, program)
        if program:
            return Finding(Level.OK, engine.title, f"started by {program[0]}")
    except ModelError as fault:
        return Finding(bad, engine.title, str(fault))
    module = engine.modules[0]
    script = f"import {module}; print({module}.__version__)"
    try:
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=IMPORT_TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return Finding(bad, engine.title, f"takes more than {IMPORT_TIMEOUT:.0f} s to import")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return Finding(bad, engine.title, f"cannot be imported: {last}", "install it again")
    build = "CPU" if engine.runs_on_cpu() else "GPU"
    return Finding(Level.OK, engine.title, f"{done.stdout.split()[-1]}, {build} build")


def _devices(engine: Engine, bad: Level) -> Finding:
    if engine.runs_on_cpu():
        cores = f"{len(devices.cpu().ids)} CPU cores; large models need a GPU"
        return Finding(Level.OK, "devices", cores)
    found = devices.gpus()
    if found.kind != "gpu":
        return Finding(bad, "devices", "no GPU", "check nvidia-smi and CUDA_VISIBLE_DEVICES")
    size = f", {found.memory:.0f} GiB each at least" if found.memory else ""
    busy = f"; in use: {', '.join(found.busy)}" if found.busy else ""
    level = Level.WARN if busy else Level.OK
    return Finding(level, "devices", f"GPU {', '.join(found.ids)}{size}{busy}")
