"""What the doctor looks at: this machine, its engine, and the prompts that a run would send."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

from refusal_checks.benchmarks import Benchmark, pinned
from refusal_checks.core.errors import DataError, ModelError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.text import FAMILIES, clean
from refusal_checks.engines import devices
from refusal_checks.engines.base import Engine
from refusal_checks.engines.kinds import require_program
from refusal_checks.gates import power
from refusal_checks.gates.gate import Gate

MOST_GATES = 20
"""Most gates that are told of one by one."""

LEAST_MEMORY = 4.0
"""GiB of memory below which vLLM hardly starts: its processes take 2 without any model."""

LEAST_DISK = 20.0
"""GiB of disk under which a model of a few billion parameters does not fit."""

IMPORT_TIMEOUT = 300.0
"""Seconds that importing an engine may take: on a cold disk, a minute."""


class Level(StrEnum):
    """How well something is."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True)
class Diagnosis:
    """One thing that was looked at, and what to do about it if anything."""

    level: Level
    what: str
    said: str
    remedy: str = ""

    def __str__(self) -> str:
        said = "; ".join(filter(None, (self.said, self.remedy)))
        return f"{self.level:<4}  {self.what:<12}  {clean(said, 1000)}"


ok, warn, fail = (partial(Diagnosis, level) for level in Level)


def machine(store: Path) -> Iterator[Diagnosis]:
    """Whether an engine's processes have room, answers can be stored and weights downloaded."""
    free = devices.cpu().memory or 0.0
    remedy = "an engine needs more; end other processes" if free < LEAST_MEMORY else ""
    yield (warn if remedy else ok)("memory", f"{free:.1f} GiB free", remedy)
    home = Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()
    for what, path in (("disk: store", store), ("disk: models", home)):
        there = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
        free = shutil.disk_usage(there).free / 2**30
        said = f"{free:.0f} GiB free at {there}"
        if free < 1:
            yield fail(what, said, "free some space")
        elif path == home and free < LEAST_DISK:
            yield warn(what, said, "weights may not fit; set HF_HOME to another")
        else:
            yield ok(what, said)


def engine(engine: Engine, program: Sequence[str], needed: bool) -> Iterator[Diagnosis]:
    """The engine and its devices; attached servers and recordings need neither."""
    bad = fail if needed else warn
    finding = _installed(engine, program, bad)
    yield finding
    if engine.runs_on_cpu():
        yield ok("devices", f"{len(devices.cpu().ids)} CPU cores; large models need a GPU")
        return
    found = devices.gpus()
    if found.kind != "gpu":
        missing = bad if finding.level is Level.OK else warn
        yield missing("devices", "no GPU", "check nvidia-smi and CUDA_VISIBLE_DEVICES")
        return
    size = f", {found.memory:.0f} GiB each at least" if found.memory else ""
    busy = f"; in use: {', '.join(found.busy)}" if found.busy else ""
    yield (warn if busy else ok)("devices", f"GPU {', '.join(found.ids)}{size}{busy}")


def _installed(engine: Engine, program: Sequence[str], bad: partial[Diagnosis]) -> Diagnosis:
    try:
        require_program(engine, program)
    except ModelError as fault:
        return bad(engine.title, str(fault))
    if program:
        return ok(engine.title, f"started by {program[0]}")
    module = engine.modules[0]
    script = f"import {module}; print({module}.__version__)"
    try:
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=IMPORT_TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return bad(engine.title, f"takes more than {IMPORT_TIMEOUT:.0f} s to import")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return bad(engine.title, f"cannot be imported: {last}", "install it again")
    build = "CPU" if engine.runs_on_cpu() else "GPU"
    return ok(engine.title, f"{done.stdout.split()[-1]}, {build} build")


Local = Mapping[str, Sequence[Prompt]]
"""Prompts by benchmark, of those whose data is here."""


def local_prompts(benchmarks: Iterable[Benchmark], data: str | None) -> Local:
    """The prompts of benchmarks whose data is here, or in the mirror that ``--data`` names."""
    folder, found = None, {}
    with suppress(DataError):
        folder = pinned.mirror_folder(data)
    for benchmark in benchmarks:
        at = benchmark.at(folder)
        if not at.resources or (folder and at.is_in(folder)):
            with suppress(DataError):  # the run says what is wrong
                found[benchmark.name] = pinned.load_checked(at, folder)
    return found


def special_prompts(prompts: Local) -> Iterator[Diagnosis]:
    """The benchmarks that have prompts with special tokens."""
    for name, own in prompts.items():
        if held := [prompt for prompt in own if FAMILIES.count(prompt.transcript)]:
            said = (
                f"{name}: {len(held)} of {len(own)} prompts hold special tokens of chat "
                f"templates, the first is {held[0].id}"
            )
            yield warn("prompts", said, "they reach the candidate as they are, its judge broken up")


def shown_by(gates: Sequence[Gate], prompts: Local, level: float) -> Iterator[Diagnosis]:
    """What the gates on these prompts can show."""
    sizes = {
        gate: sum(map(gate.looks_at, prompts[gate.benchmark]))
        for gate in gates
        if gate.benchmark in prompts
    }
    told = [*power.remarks(sizes, level)]
    for line in told[:MOST_GATES]:
        yield (warn if power.TOO_FEW in line else ok)("gate", line)
    if rest := told[MOST_GATES:]:
        yield ok("gate", f"{len(rest)} more, on as many prompts or more")
    if alarms := power.false_alarms(sizes, level):
        yield warn("gate", *reversed(alarms.split(": ", 1)))
