"""``refusal-checks doctor``: check that a gate run can work on this machine."""

import os
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.benchmarks import Benchmark, discover
from refusal_checks.benchmarks.pinned import MIRROR_VARIABLE, mirror_folder
from refusal_checks.cli._common import STORE, AsJson, Root, echo
from refusal_checks.cli.doctor import checks
from refusal_checks.cli.doctor.checks import Diagnosis, Level, fail, ok, warn
from refusal_checks.core import extensions
from refusal_checks.core.errors import DataError, StoreError, UserError
from refusal_checks.core.store import Store
from refusal_checks.core.text import json_text
from refusal_checks.engines import kinds
from refusal_checks.evaluation.config import choose_engine
from refusal_checks.gates import thresholds, toml_file
from refusal_checks.gates.gate import today
from refusal_checks.metrics import METRICS
from refusal_checks.models.names import Served
from refusal_checks.results import run_folder
from refusal_checks.spec import RunSpec

THRESHOLDS = Path("thresholds") / "default.toml"


def add(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    candidate: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="The model under test, as in a gate run; default: the run file's.",
        ),
    ] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL",
            help="A judge, as in a gate run (repeatable); default: the run file's.",
        ),
    ] = None,
    thresholds: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Check what this run file names: models, data (repeatable).",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Mirror of public data; $REFUSAL_CHECKS_DATA."
        ),
    ] = None,
    store: Annotated[
        Path, typer.Option(metavar="FILE", help="Stored answers.")
    ] = STORE,
    runs: Root = run_folder.ROOT,
    engine: Annotated[str, typer.Option(help="As in a gate run.")] = kinds.AUTO,
    engine_command: Annotated[str, typer.Option(help="As in a gate run.")] = "",
    as_json: AsJson = False,
) -> None:
    """Check this machine, its data and the named models before a gate run; starts no engine.

    Each line begins with OK, WARN or FAIL and says what to do. Exits with 1 if any line is FAIL.
    """
    usual = (
        [THRESHOLDS]
        if THRESHOLDS.is_file()
        else [toml_file.DEFAULT]
        if candidate
        else []
    )
    files = [toml_file.find(path) for path in thresholds or usual]
    chosen = choose_engine(engine, engine_command)
    are_selected = bool(thresholds) or THRESHOLDS.is_file()
    candidates, judges = [candidate] if candidate else [], judge or []
    with suppress(UserError):  # it is said of the file
        spec = RunSpec.read(*files) if files else RunSpec()
        candidates = candidates or list(spec.candidate.model)
        judges = judges or list(spec.judge.model)
    findings = examine(
        candidates, judges, files, store, data, *chosen, are_selected=are_selected
    )
    found = []
    for finding in chain(findings, [_runs(runs)]):
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
        remedy = "name a writable folder with --runs, in gate runs too"
        return fail("runs", f"{remedy}: {folder} is not writable")
    count = len(run_folder.all_runs(folder))
    return ok("runs", f"{folder}: {count} so far" if count else f"{folder}: none yet")


def examine(
    candidates: Sequence[str],
    judges: Sequence[str],
    files: Sequence[Path],
    store: Path,
    data: str | None,
    engine: str = kinds.PREFERRED,
    program: tuple[str, ...] = (),
    *,
    are_selected: bool = True,
) -> Iterator[Diagnosis]:
    """Look at everything that a planned run needs, the cheap parts first.

    ``are_selected``: the user chose the run files; else they are those of a plain run.
    """
    yield ok("python", f"{platform.python_version()} ({sys.executable})")
    yield from _extensions(files)
    yield from checks.machine(store)
    yield from _data(files, data, are_selected)
    yield _store(store)
    yield checks.hugging_face()
    yield checks.demo_models()
    named = [("--candidate", number, name) for number, name in enumerate(candidates, 1)]
    named += [("--judge", number, judge) for number, judge in enumerate(judges, 1)]
    needed = False
    for option, number, name in named:
        model, finding = checks.model(option, number, name)
        needed = needed or isinstance(model, Served)
        yield finding
        yield from checks.loading(option, model, engine, program)
    yield from checks.engine(kinds.get(engine), program, needed)


def _extensions(files: Sequence[Path]) -> Iterator[Diagnosis]:
    """The extensions that a run would use, and what they add."""
    for fault in extensions.faults():
        yield fail("extension", fault)
    with suppress(UserError):  # said of the run files
        thresholds.load_extensions(files)
    for one in extensions.known():
        own = (
            m.name
            for m in METRICS.values()
            if m.score.__module__ == one.module.__name__
        )
        metrics = [f"metric {name}" for name in own]
        added = ", ".join([*one.contents(), *metrics]) or "adds nothing"
        yield ok("extension", f"{one.origin}: {added}")


def _data(
    files: Sequence[Path], data: str | None, are_selected: bool
) -> Iterator[Diagnosis]:
    """The run files, the data that they need, and what can be shown with it."""
    if not files:
        said = "none named, none in thresholds/default.toml"
        yield warn("thresholds", said, "name the gates by --thresholds")
        yield _mirror(data, None)
        return
    try:
        read = RunSpec.read(*files)
        known = read.catalogue()
    except UserError as fault:
        yield fail("thresholds", str(fault))
        yield _mirror(data, None)
        return
    wanted = list(
        {gate.benchmark: known[gate.benchmark] for gate in read.gates}.values()
    )
    valid, expired = thresholds.waiver_remarks(read.gates, today())
    said = "; ".join(
        [f"{len(read.gates)} gates on {len(wanted)} benchmarks", *valid, *expired]
    )
    remedy = "renew or remove what has expired" if expired else ""
    yield (warn if expired else ok)("thresholds", said, remedy)
    yield _mirror(data, wanted, are_selected)
    prompts = checks.local_prompts(wanted, data)
    yield from checks.special_prompts(prompts)
    yield from checks.shown_by(read.gates, prompts, read.settings.confidence)


def _mirror(
    named: str | None, needed: Sequence[Benchmark] | None, are_selected: bool = False
) -> Diagnosis:
    """Whether a mirror has what is needed; if that is unknown, whether it has everything.

    Only what selected run files need is a failure where it is missing.
    """
    try:
        folder = mirror_folder(named)
    except DataError as fault:
        return fail("data", str(fault), "name the folder of `data pull`")
    bad = fail if are_selected else warn
    if needed is None:
        needed = [found for found in discover().values() if not found.is_gated]
    wanted = [found for found in needed if found.resources]
    if folder is None:
        said = f"no mirror ({MIRROR_VARIABLE}, --data): {len(wanted)} benchmarks from the network"
        if wanted and checks.is_offline():
            return bad("data", said, "HF_HUB_OFFLINE is set: name a mirror")
        if unreached := checks.unreached_data(wanted):
            return bad("data", said, f"name a mirror with --data: {unreached}")
        return ok("data", said)
    missing = [found for found in wanted if not found.at(folder).is_in(folder)]
    said = f"{folder}: {len(wanted) - len(missing)} of {len(wanted)} benchmarks"
    if not missing:
        return ok("data", said)
    said += f"; missing: {', '.join(found.name for found in missing)}"
    is_gated = any(
        found.is_gated for found in missing
    )  # such data is fetched by name only
    chosen = (
        "".join(f" --benchmark {found.name}" for found in missing) if is_gated else ""
    )
    return bad("data", said, f"`refusal-checks data pull {folder}{chosen}`")


def _store(path: Path) -> Diagnosis:
    if not path.is_file():
        return ok("store", f"{path}: none yet")
    try:
        with Store(path) as store:
            held, size = store.contents(), store.size()
    except StoreError as fault:
        return fail("store", str(fault))
    said = f"{path}: {held.completions} answers, {held.judgements} verdicts, {size / 2**20:.1f} MiB"
    return ok("store", said)
