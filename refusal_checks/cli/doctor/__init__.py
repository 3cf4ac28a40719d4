"""``refusal-checks doctor``: check that a gate run can work on this machine."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.benchmarks import Benchmark, catalogue, discover
from refusal_checks.benchmarks.pinned import MIRROR_VARIABLE, mirror_folder, public
from refusal_checks.cli._echo import echo
from refusal_checks.cli._runs import AsJson, Root
from refusal_checks.cli.doctor import checks, models
from refusal_checks.cli.doctor.checks import Diagnosis, Level
from refusal_checks.core import extensions
from refusal_checks.core.errors import DataError, StoreError, UserError
from refusal_checks.core.store import Store
from refusal_checks.core.text import json_text
from refusal_checks.engines import kinds
from refusal_checks.gates import thresholds, toml_file, waivers
from refusal_checks.metrics import METRICS
from refusal_checks.models.spec import Served
from refusal_checks.results import run_folder
from refusal_checks.run.options.models import choose_engine

STORE = Path(".refusal-checks") / "store.sqlite"
THRESHOLDS = Path("thresholds") / "default.toml"


def add(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(
    candidate: Annotated[
        str | None, typer.Option(metavar="MODEL", help="The model under test, as in a gate run.")
    ] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(metavar="MODEL", help="A judge, as in a gate run (repeatable)."),
    ] = None,
    thresholds: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Check the data of this threshold file's benchmarks (repeatable).",
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="Mirror of public data; $REFUSAL_CHECKS_DATA.")
    ] = None,
    store: Annotated[Path, typer.Option(metavar="FILE", help="Stored answers.")] = STORE,
    runs: Root = run_folder.ROOT,
    engine: Annotated[str, typer.Option(help="As in a gate run.")] = kinds.AUTO,
    engine_command: Annotated[str, typer.Option(help="As in a gate run.")] = "",
    as_json: AsJson = False,
) -> None:
    """Check this machine, its data and the named models before a gate run; starts no engine.

    Each line begins with OK, WARN or FAIL and says what to do. Exits with 1 if any line is FAIL.
    """
    usual = [THRESHOLDS] if THRESHOLDS.is_file() else [toml_file.DEFAULT] if candidate else []
    files = [toml_file.find(path) for path in thresholds or usual]
    chosen = choose_engine(engine, engine_command)
    plan = PlannedRun(candidate, judge or (), files, store, data, *chosen)
    found = []
    for finding in chain(examine(plan), [_runs(runs)]):
        found.append(finding)
        if not as_json:
            echo(finding)
    if as_json:
        echo(json_text([asdict(finding) for finding in found]))
    if any(finding.level is Level.FAIL for finding in found):
        raise typer.Exit(1)


def _runs(folder: Path) -> Diagnosis:
    """Whether runs can be written into their folder, which need not exist."""
    whole = folder.absolute()
    place = next(path for path in (whole, *whole.parents) if os.path.exists(path))  # noqa: PTH110
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        said = (
            f"name a folder that can be written with --runs, in gate runs too: {folder} cannot be"
        )
        return Diagnosis(Level.FAIL, "runs", said)
    count = len(run_folder.all_runs(folder))
    return Diagnosis(
        Level.OK, "runs", f"{folder}: {count} so far" if count else f"{folder}: none yet"
    )


__all__ = ["Diagnosis", "Level", "Plan", "examine"]


@dataclass(frozen=True)
class PlannedRun:
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


def examine(plan: PlannedRun) -> Iterator[Diagnosis]:
    """Look at everything, the cheap parts first."""
    yield Diagnosis(Level.OK, "python", f"{platform.python_version()} ({sys.executable})")
    yield from _extensions(plan)
    yield checks.memory()
    yield from checks.disks(plan.store)
    yield from _data(plan)
    yield _store(plan.store)
    yield models.hugging_face()
    yield models.demo_models()
    needed = not plan.named
    for option, number, name in plan.named:
        model, finding = models.find(option, number, name)
        needed = needed or isinstance(model, Served)
        yield finding
    yield from checks.engine(kinds.get(plan.engine), plan.program, needed)


def _extensions(plan: PlannedRun) -> Iterator[Diagnosis]:
    """Who else's code a run would use, and what it adds."""
    for fault in extensions.faults():
        yield Diagnosis(Level.FAIL, "extension", fault)
    with suppress(UserError):  # said of the threshold files
        thresholds.load_extensions(plan.threshold_files)
    for one in extensions.known():
        own = (m.name for m in METRICS.values() if m.score.__module__ == one.module.__name__)
        metrics = [f"metric {name}" for name in own]
        added = ", ".join([*one.contents(), *metrics]) or "adds nothing"
        yield Diagnosis(Level.OK, "extension", f"{one.origin}: {added}")


def _data(plan: PlannedRun) -> Iterator[Diagnosis]:
    finding, wanted, read = _thresholds(plan.threshold_files)
    yield finding
    yield _mirror(plan.data, wanted)
    prompts = checks.local_prompts(wanted or (), plan.data)
    for said in checks.special_prompts(prompts):
        remedy = "they reach the candidate as they are, its judge broken up"
        yield Diagnosis(Level.WARN, "prompts", said, remedy)
    if read:
        yield from checks.shown_by(read.gates, prompts, read.settings.confidence)


Needed = tuple[Diagnosis, Sequence[Benchmark] | None, thresholds.Thresholds | None]


def _thresholds(files: Sequence[Path]) -> Needed:
    """What threshold files say, and the benchmarks that they need; None if they cannot be read."""
    if not files:
        problem = "none named, none in thresholds/default.toml"
        return (
            Diagnosis(Level.WARN, "thresholds", problem, "name the gates by --thresholds"),
            None,
            None,
        )
    try:
        extensions.require_sound()
        read = thresholds.load_gates(list(files), discover())
        known = catalogue(read.tables, read.attacked)
    except UserError as fault:
        return Diagnosis(Level.FAIL, "thresholds", str(fault)), None, None
    wanted = {gate.benchmark: known[gate.benchmark] for gate in read.gates}
    valid, expired = thresholds.waiver_remarks(read.gates, waivers.today())
    said = "; ".join([f"{len(read.gates)} gates on {len(wanted)} benchmarks", *valid, *expired])
    level, remedy = (Level.WARN, "renew or remove what has expired") if expired else (Level.OK, "")
    return Diagnosis(level, "thresholds", said, remedy), list(wanted.values()), read


def _mirror(named: str | None, needed: Sequence[Benchmark] | None) -> Diagnosis:
    """Whether a mirror has what is needed; if that is unknown, whether it has everything."""
    try:
        folder = mirror_folder(named)
    except DataError as fault:
        return Diagnosis(Level.FAIL, "data", str(fault), "name the folder of `data pull`")
    known = [found for found in discover().values() if not found.is_gated]
    wanted = public(known if needed is None else needed)
    if folder is None:
        said = f"no mirror ({MIRROR_VARIABLE}, --data): {len(wanted)} benchmarks from the network"
        if wanted and models.is_offline():
            return Diagnosis(Level.FAIL, "data", said, "HF_HUB_OFFLINE is set: name a mirror")
        if unreached := models.unreached_data(wanted):
            level = Level.WARN if needed is None else Level.FAIL
            return Diagnosis(level, "data", said, f"name a mirror with --data: {unreached}")
        return Diagnosis(Level.OK, "data", said)
    missing = [found.name for found in wanted if not found.at(folder).is_in(folder)]
    said = f"{folder}: {len(wanted) - len(missing)} of {len(wanted)} benchmarks"
    if missing:
        level = Level.WARN if needed is None else Level.FAIL
        said += f"; missing: {', '.join(missing)}"
        is_gated = any(found.is_gated for found in wanted if found.name in missing)
        chosen = [f" --benchmark {name}" for name in missing] if is_gated else []
        return Diagnosis(
            level, "data", said, f"`refusal-checks data pull {folder}{''.join(chosen)}`"
        )
    return Diagnosis(Level.OK, "data", said)


def _store(path: Path) -> Diagnosis:
    if not path.is_file():
        return Diagnosis(Level.OK, "store", f"{path}: none yet")
    try:
        with Store(path) as store:
            held, size = store.contents(), store.size()
    except StoreError as fault:
        return Diagnosis(Level.FAIL, "store", str(fault))
    said = f"{path}: {held.completions} answers, {held.judgements} verdicts, {size / 2**20:.1f} MiB"
    return Diagnosis(Level.OK, "store", said)
