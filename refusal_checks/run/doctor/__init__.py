"""What a gate run will need of this machine, looked at before it is started."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from refusal_checks.benchmarks import Benchmark, catalogue, discover
from refusal_checks.benchmarks.pinned import MIRROR_VARIABLE, mirror_folder, public
from refusal_checks.core import extensions
from refusal_checks.core.errors import DataError, StoreError, UserError
from refusal_checks.core.store import Store
from refusal_checks.engines import kinds
from refusal_checks.gates import thresholds, waivers
from refusal_checks.metrics import METRICS
from refusal_checks.models.spec import Served
from refusal_checks.run import reach, special_prompts
from refusal_checks.run.doctor import machine, models
from refusal_checks.run.doctor.finding import Finding, Level

__all__ = ["Finding", "Level", "Plan", "examine"]


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
    yield machine.memory()
    yield from machine.disks(plan.store)
    yield from _data(plan)
    yield _store(plan.store)
    yield models.hugging_face()
    yield models.demo_models()
    needed = not plan.named
    for option, number, name in plan.named:
        model, finding = models.find(option, number, name)
        needed = needed or isinstance(model, Served)
        yield finding
    yield from machine.engine(kinds.get(plan.engine), plan.program, needed)


def _extensions(plan: Plan) -> Iterator[Finding]:
    """Who else's code a run would use, and what it adds."""
    for fault in extensions.faults():
        yield Finding(Level.FAIL, "extension", fault)
    with suppress(UserError):  # said of the threshold files
        thresholds.load_extensions(plan.threshold_files)
    for one in extensions.known():
        own = (m.name for m in METRICS.values() if m.score.__module__ == one.module.__name__)
        metrics = [f"metric {name}" for name in own]
        added = ", ".join([*one.contents(), *metrics]) or "adds nothing"
        yield Finding(Level.OK, "extension", f"{one.origin}: {added}")


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
        read = thresholds.load(list(files), discover())
        known = catalogue(read.tables, read.attacked)
    except UserError as fault:
        return Finding(Level.FAIL, "thresholds", str(fault)), None
    wanted = {gate.benchmark: known[gate.benchmark] for gate in read.gates}
    valid, expired = thresholds.waiver_remarks(read.gates, waivers.today())
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
        if wanted and models.is_offline():
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
