"""``refusal-checks doctor``: check that a gate run can work on this machine."""

import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.benchmarks import Benchmark, discover
from refusal_checks.benchmarks.pinned import MIRROR_VARIABLE, mirror_folder
from refusal_checks.cli._common import (
    STORE,
    AsJson,
    Candidate,
    Judges,
    Keys,
    Root,
    echo,
    overrides,
)
from refusal_checks.cli.doctor import checks
from refusal_checks.cli.doctor.checks import Diagnosis, Level, fail, ok, warn
from refusal_checks.core import extensions
from refusal_checks.core.errors import DataError, StoreError, UserError
from refusal_checks.core.store import Store
from refusal_checks.core.text import clean, count, json_text
from refusal_checks.evaluation import model_config
from refusal_checks.gates import thresholds, toml_file
from refusal_checks.gates.gate import today
from refusal_checks.metrics import METRICS
from refusal_checks.models.names import Served
from refusal_checks.results import run_folder
from refusal_checks.spec import Layer, RunSpec

THRESHOLDS = Path("thresholds") / "default.toml"


def add(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    candidate: Candidate = None,
    judge: Judges = None,
    thresholds: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Check what this run file names: models, data (repeatable).",
        ),
    ] = None,
    keys: Keys = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Mirror of public data; $REFUSAL_CHECKS_DATA."
        ),
    ] = None,
    store: Annotated[
        str | None, typer.Option(metavar="FILE", help="Stored answers.")
    ] = None,
    runs: Root = run_folder.ROOT,
    as_json: AsJson = False,
) -> None:
    """Check this machine, its data and the named models before a gate run; starts no engine.

    Each line begins with OK, WARN or FAIL and says what to do. Exits with 1 if any line is FAIL.
    """
    layers = overrides(keys, candidate=candidate, judge=judge, data=data, store=store)
    plan = Plan.read(thresholds or [], layers)
    findings = []
    for finding in chain(examine(plan), [_runs(runs)]):
        findings.append(finding)
        if not as_json:
            echo(finding)
    if as_json:
        echo(json_text([asdict(finding) for finding in findings]))
    if any(finding.level is Level.FAIL for finding in findings):
        raise typer.Exit(1)


@dataclass(frozen=True)
class Plan:
    """The run that the doctor checks.

    Attributes:
        files: its run files; empty if none say what to gate.
        is_chosen: whether the user chose the files, so that anything they lack is a failure.
        fault: why the files cannot be used; ``spec`` then holds only the command line's keys.
    """

    spec: RunSpec
    files: Sequence[Path] = ()
    is_chosen: bool = False
    fault: str = ""

    @classmethod
    def read(cls, named: Sequence[Path], layers: Sequence[Layer]) -> "Plan":
        """Read the run from these files, else from this folder's, else from the shipped file.

        Nobody has chosen the gates of the shipped file, so it counts only if a candidate is named.
        """
        alone = RunSpec.of(layers)
        is_chosen = bool(named) or THRESHOLDS.is_file()
        if named:
            files = [toml_file.find(path) for path in named]
        elif THRESHOLDS.is_file():
            files = [THRESHOLDS]
        elif alone.candidate.model:
            files = [toml_file.DEFAULT]
        else:
            return cls(alone)
        try:
            spec = RunSpec.read(*files, overrides=layers)
            spec.catalogue()
        except UserError as fault:
            return cls(alone, files, is_chosen, str(fault))
        return cls(spec, files, is_chosen)


def _runs(folder: Path) -> Diagnosis:
    """Check that runs can be written into their folder, which need not exist."""
    whole = folder.absolute()
    place = next(path for path in (whole, *whole.parents) if os.path.exists(path))  # noqa: PTH110
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        remedy = "name a writable folder with --runs, in gate runs too"
        return fail("runs", f"{remedy}: {folder} is not writable")
    runs = len(run_folder.all_runs(folder))
    return ok("runs", f"{folder}: {runs} so far" if runs else f"{folder}: none yet")


def examine(plan: Plan) -> Iterator[Diagnosis]:
    """Check everything that a planned run needs, cheap checks first."""
    spec = plan.spec
    store = Path(spec.store.file or STORE)
    yield ok("python", f"{platform.python_version()} ({sys.executable})")
    yield from _extensions(plan.files)
    yield from checks.machine(store)
    yield from _data(plan)
    yield _store(store)
    yield checks.hugging_face()
    yield from _models(spec)


def _models(spec: RunSpec) -> Iterator[Diagnosis]:
    """Check the models under test, the judges, and the engine that some of them need."""
    program = model_config.program(spec)
    is_engine_needed = False
    for option, names in (
        ("--candidate", [spec.candidate.model] if spec.candidate.model else []),
        ("--judge", spec.judge.model),
    ):
        role = option.removeprefix("--")
        if not names:
            yield warn(role, f"name one by {option} or in a run file: none is named")
        for number, name in enumerate(names, 1):
            model, finding = checks.model(option, number, name)
            yield finding
            yield from checks.loading(option, model, program)
            if isinstance(model, Served):
                is_engine_needed = True
    yield from checks.engine(program, is_engine_needed)


def _extensions(files: Sequence[Path]) -> Iterator[Diagnosis]:
    """List the extensions that a run would use, and what they add."""
    for fault in extensions.faults():
        yield fail("extension", fault)
    with suppress(UserError):  # said of the run files
        thresholds.load_extensions(files)
    for extension in extensions.known():
        metrics = [
            f"metric {metric.name}"
            for metric in METRICS.values()
            if metric.score.__module__ == extension.module.__name__
        ]
        added = ", ".join([*extension.contents(), *metrics]) or "adds nothing"
        yield ok("extension", f"{extension.origin}: {added}")


def _data(plan: Plan) -> Iterator[Diagnosis]:
    """Check the run files and the data that they need, and say what can be shown with it."""
    spec, mirror = plan.spec, plan.spec.data.mirror
    if not plan.files:
        state = "none named, none in thresholds/default.toml"
        yield warn("thresholds", state, "name the gates by --thresholds")
        yield _mirror(mirror, None)
        return
    if plan.fault:
        yield fail("thresholds", plan.fault)
        yield _mirror(mirror, None)
        return

    catalogue = spec.catalogue()
    benchmarks = [catalogue[name] for name in spec.evaluated]
    yield _gates(spec, len(benchmarks))
    yield _mirror(mirror, benchmarks, plan.is_chosen)
    prompts = checks.local_prompts(benchmarks, mirror)
    yield from checks.special_prompts(prompts)
    yield from checks.shown_by(spec.gates, prompts, spec.settings.confidence)


def _gates(spec: RunSpec, benchmarks: int) -> Diagnosis:
    """Count the gates; say what is waived or accepted, and what is no longer."""
    valid, expired = thresholds.waiver_remarks(spec.gates, today())
    for name, acceptance in spec.accept.granted.items():
        terms = clean(acceptance.in_words, 100)
        if acceptance.holds(today()):
            valid.append(f"{name} is accepted {terms}")
        else:
            expired.append(f"{name} is no longer accepted: it was {terms}")
    gates = count(len(spec.gates), "gate")
    counts = f"{gates} on {count(benchmarks, 'benchmark')}"
    state = "; ".join([counts, *valid, *expired])
    if expired:
        return warn("thresholds", state, "renew or remove what has expired")
    return ok("thresholds", state)


def _mirror(
    named: str, needed: Sequence[Benchmark] | None, are_chosen: bool = False
) -> Diagnosis:
    """Check that a mirror has the data needed, or all data if the need is unknown.

    Missing data is a failure only if chosen run files need it.
    """
    try:
        folder = mirror_folder(named)
    except DataError as fault:
        return fail("data", str(fault), "name the folder of `data pull`")
    bad = fail if are_chosen else warn
    if needed is None:
        needed = [
            benchmark for benchmark in discover().values() if not benchmark.is_gated
        ]
    public = [benchmark for benchmark in needed if benchmark.resources]
    if folder is None:
        return _network(public, bad)

    missing = [
        benchmark for benchmark in public if not benchmark.at(folder).is_in(folder)
    ]
    state = f"{folder}: {len(public) - len(missing)} of {len(public)} benchmarks"
    if not missing:
        return ok("data", state)
    names = [benchmark.name for benchmark in missing]
    command = f"refusal-checks data pull {folder}"
    # Gated data is fetched only by its name.
    if any(benchmark.is_gated for benchmark in missing):
        command = " --benchmark ".join([command, *names])
    return bad("data", f"{state}; missing: {', '.join(names)}", f"`{command}`")


def _network(
    needed: Sequence[Benchmark], bad: Callable[[str, str, str], Diagnosis]
) -> Diagnosis:
    """Check that data can be fetched if there is no mirror."""
    state = (
        f"no mirror ({MIRROR_VARIABLE}, --data): {len(needed)} benchmarks from the "
        "network"
    )
    if needed and checks.is_offline():
        return bad("data", state, "HF_HUB_OFFLINE is set: name a mirror")
    unreached = checks.unreached_data(needed)
    if unreached:
        return bad("data", state, f"name a mirror with --data: {unreached}")
    return ok("data", state)


def _store(path: Path) -> Diagnosis:
    if not path.is_file():
        return ok("store", f"{path}: none yet")
    try:
        with Store(path) as store:
            contents, size = store.contents(), store.size()
    except StoreError as fault:
        return fail("store", str(fault))
    counts = f"{contents.completions} answers, {contents.judgements} verdicts"
    return ok("store", f"{path}: {counts}, {size / 2**20:.1f} MiB")
