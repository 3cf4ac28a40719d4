"""What a gate run will need of this machine, looked at before it is started."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from refusal_checks.benchmarks import Benchmark, catalogue, discover
from refusal_checks.benchmarks.mirror import public
from refusal_checks.benchmarks.pinned_file import MIRROR_VARIABLE, mirror_folder
from refusal_checks.core import extensions
from refusal_checks.core.errors import DataError, ModelError, StoreError, UserError
from refusal_checks.core.store import Store
from refusal_checks.core.text import clean
from refusal_checks.engines import kinds
from refusal_checks.engines.base import Engine
from refusal_checks.engines.placement import devices
from refusal_checks.engines.pool import require_program
from refusal_checks.gates import threshold_files, waiver, written_bounds
from refusal_checks.metrics import METRICS
from refusal_checks.models import spec
from refusal_checks.models.client import attaching
from refusal_checks.models.client.attaching import api_key
from refusal_checks.models.identity import cached_commit
from refusal_checks.models.spec import Attached, Served
from refusal_checks.run import reach, special_prompts

GIB = 2**30

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
class Finding:
    """One thing that was looked at.

    Attributes:
        remedy: what to do; empty if nothing.
    """

    level: Level
    what: str
    said: str
    remedy: str = ""

    def __str__(self) -> str:
        said = "; ".join(filter(None, (self.said, self.remedy)))
        return f"{self.level:<4}  {self.what:<12}  {clean(said, 1000)}"


@dataclass(frozen=True)
class Plan:
    """The planned run; each part may be left open.

    Attributes:
        store: the file of stored answers, which need not exist.
        data: the mirror, as ``--data`` names it.
        engine, program: as ``--engine`` and ``--engine-command`` name them.
    """

    candidate: str | None
    judges: Sequence[str]
    threshold_files: Sequence[Path]
    store: Path
    data: str | None
    engine: str = kinds.PREFERRED
    program: tuple[str, ...] = ()

    @property
    def named(self) -> list[tuple[str, int, str]]:
        """Option, number among those of this option, and model, for each that is named."""
        candidate = [("--candidate", 1, self.candidate)] if self.candidate else []
        return [*candidate, *(("--judge", n, judge) for n, judge in enumerate(self.judges, 1))]


def examine(plan: Plan) -> Iterator[Finding]:
    """Look at everything, the cheap parts first."""
    yield Finding(Level.OK, "python", f"{platform.python_version()} ({sys.executable})")
    yield from _extensions(plan)
    yield _memory()
    yield from _disks(plan)
    yield from _data(plan)
    yield _store(plan.store)
    yield _hugging_face()
    needed = not plan.named
    for option, number, name in plan.named:
        model, finding = _model(option, number, name)
        needed = needed or isinstance(model, Served)
        yield finding
    yield from _engine(kinds.get(plan.engine), plan.program, needed)


def _extensions(plan: Plan) -> Iterator[Finding]:
    """Who else's code a run would use, and what it adds."""
    for fault in extensions.faults():
        yield Finding(Level.FAIL, "extension", fault)
    with suppress(UserError):  # said of the threshold files
        threshold_files.load_extensions(plan.threshold_files)
    for one in extensions.known():
        own = (m.name for m in METRICS.values() if m.score.__module__ == one.module.__name__)
        metrics = [f"metric {name}" for name in own]
        added = ", ".join([*one.contents(), *metrics]) or "adds nothing"
        yield Finding(Level.OK, "extension", f"{one.origin}: {added}")


def _memory() -> Finding:
    free = devices.cpu().memory or 0.0
    said = f"{free:.1f} GiB free"
    if free < LEAST_MEMORY:
        return Finding(Level.WARN, "memory", said, "an engine needs more; end other processes")
    return Finding(Level.OK, "memory", said)


def _disks(plan: Plan) -> Iterator[Finding]:
    home = Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()
    for what, path in (("disk: store", plan.store), ("disk: models", home)):
        there = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
        free = shutil.disk_usage(there).free / GIB
        said = f"{free:.0f} GiB free at {there}"
        if free < 1:
            yield Finding(Level.FAIL, what, said, "free some space")
        elif what == "disk: models" and free < LEAST_DISK:
            yield Finding(Level.WARN, what, said, "weights may not fit; set HF_HOME to another")
        else:
            yield Finding(Level.OK, what, said)


def _data(plan: Plan) -> Iterator[Finding]:
    """Threshold files and the data that they need."""
    finding, wanted = _thresholds(plan.threshold_files)
    yield finding
    yield _mirror(plan.data, wanted)
    for said in special_prompts.found(wanted or (), plan.data):
        remedy = "they reach the candidate as they are, its judge broken up"
        yield Finding(Level.WARN, "prompts", said, remedy)


def _thresholds(files: Sequence[Path]) -> tuple[Finding, Sequence[Benchmark] | None]:
    """What threshold files say, and the benchmarks that they need; None if they cannot be read."""
    if not files:
        problem = "none named, none in thresholds/default.toml"
        return Finding(Level.WARN, "thresholds", problem, "name the gates by --thresholds"), None
    try:
        extensions.require_sound()
        read = threshold_files.load(list(files), discover())
        known = catalogue(read.tables, read.attacked)
    except UserError as fault:
        return Finding(Level.FAIL, "thresholds", str(fault)), None
    wanted = {gate.benchmark: known[gate.benchmark] for gate in read.gates}
    valid, expired = written_bounds.waivers(read.gates, waiver.today())
    said = "; ".join([f"{len(read.gates)} gates on {len(wanted)} benchmarks", *valid, *expired])
    level, remedy = (Level.WARN, "renew or remove what has expired") if expired else (Level.OK, "")
    return Finding(level, "thresholds", said, remedy), list(wanted.values())


def _mirror(named: str | None, needed: Sequence[Benchmark] | None) -> Finding:
    """Whether a mirror has what is needed or, where nobody knows, all that there is."""
    try:
        folder = mirror_folder(named)
    except DataError as fault:
        return Finding(Level.FAIL, "data", str(fault), "name the folder of `data pull`")
    known = [found for found in discover().values() if not found.is_gated]
    wanted = public(known if needed is None else needed)
    if folder is None:
        said = f"no mirror ({MIRROR_VARIABLE}, --data): {len(wanted)} benchmarks from the network"
        if wanted and _is_offline():
            return Finding(Level.FAIL, "data", said, "HF_HUB_OFFLINE is set: name a mirror")
        if unreached := reach.data(wanted):
            level = Level.WARN if needed is None else Level.FAIL
            return Finding(level, "data", said, f"name a mirror with --data: {unreached}")
        return Finding(Level.OK, "data", said)
    missing = [found.name for found in wanted if not found.at(folder).is_in(folder)]
    said = f"{folder}: {len(wanted) - len(missing)} of {len(wanted)} benchmarks"
    if missing:
        level = Level.WARN if needed is None else Level.FAIL
        said += f"; missing: {', '.join(missing)}"
        is_gated = any(found.is_gated for found in wanted if found.name in missing)
        chosen = [f" --benchmark {name}" for name in missing] if is_gated else []
        return Finding(level, "data", said, f"`refusal-checks data pull {folder}{''.join(chosen)}`")
    return Finding(Level.OK, "data", said)


def _store(path: Path) -> Finding:
    if not path.is_file():
        return Finding(Level.OK, "store", f"{path}: none yet")
    try:
        with Store(path) as store:
            held, size = store.contents(), store.size()
    except StoreError as fault:
        return Finding(Level.FAIL, "store", str(fault))
    said = f"{path}: {held.completions} answers, {held.judgements} verdicts, {size / 2**20:.1f} MiB"
    return Finding(Level.OK, "store", said)


def _hugging_face() -> Finding:
    from huggingface_hub import get_token

    token = "a token" if get_token() else "no token: gated models cannot be fetched"
    offline = "; offline: only what is cached" if _is_offline() else ""
    return Finding(Level.OK, "hugging face", f"{token}{offline}")


def _is_offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}


Model = spec.Candidate | spec.JudgeModel


def _model(option: str, number: int, name: str) -> tuple[Model | None, Finding]:
    """What a name means, None where it means nothing; a server that runs is asked."""
    what = option.lstrip("-")
    try:
        parse = spec.parse_candidate if what == "candidate" else spec.parse_judge
        model: Model = parse(name)
        if not isinstance(model, Attached):
            return model, _weights(model, what, name)
        listed = attaching.list_models(model.url, api_key(option, number), option)
        wanted = attaching.choose(model.url, model.model, listed, option)
        if listed and wanted not in listed:
            return model, Finding(Level.WARN, what, f"{model.url} does not list {wanted}")
        return model, Finding(Level.OK, what, f"{model.url} has {wanted}")
    except ModelError as fault:
        return None, Finding(Level.FAIL, what, str(fault))


def _weights(model: Model, what: str, said: str) -> Finding:
    if not isinstance(model, Served) or Path(model.path).is_dir():
        return Finding(Level.OK, what, said)
    if "@" in cached_commit(model.path):
        return Finding(Level.OK, what, f"{said}, cached")
    if _is_offline():
        remedy = "HF_HUB_OFFLINE is set: download it first, or name a folder"
        return Finding(Level.FAIL, what, f"{said} is not in the cache", remedy)
    if fault := reach.model(model.path):
        return Finding(Level.FAIL, what, f"{said} is not in the cache", fault)
    return Finding(Level.OK, what, f"{said}, to be downloaded")


def _engine(engine: Engine, program: Sequence[str], needed: bool) -> Iterator[Finding]:
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
