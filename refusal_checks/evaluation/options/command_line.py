"""The command line: pytest options, and the settings that they make."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from refusal_checks import benchmarks
from refusal_checks.benchmarks import Benchmark
from refusal_checks.benchmarks.pinned import mirror_folder
from refusal_checks.core import extensions, settings
from refusal_checks.core.errors import BaselineError, CalibrationError, DataError, UserError
from refusal_checks.core.files import why_no_file
from refusal_checks.engines.placement import PlacementRequest
from refusal_checks.evaluation.options import models as model_options
from refusal_checks.evaluation.options import recorded
from refusal_checks.evaluation.options.call import Call, declare, read_settings
from refusal_checks.evaluation.options.models import Answering, Judging
from refusal_checks.gates import toml_file
from refusal_checks.gates.estimates import Rules
from refusal_checks.gates.thresholds import Thresholds, load_gates
from refusal_checks.judges.trust import calibration
from refusal_checks.judges.trust.calibration import Calibration
from refusal_checks.judges.trust.canary import JudgeFloors
from refusal_checks.results import run_folder

if TYPE_CHECKING:
    from refusal_checks.judges.trust.labels import HumanLabels

REDACT = "REFUSAL_CHECKS_REDACT"
"""Environment variable that redacts as ``--redact`` does."""


def add_redact(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--redact",
        action="store_true",
        help=f"show ids, hashes and lengths instead of prompts, answers and rationales; the texts "
        f"stay in the store (${REDACT}=1)",
    )


def is_redacted(option: bool = False) -> bool:
    """True if texts stay hidden: by the option, or by its variable, which covers every command."""
    value = os.environ.get(REDACT, "").strip().lower()
    return option or value not in ("", "0", "false", "no")


COMMANDS = """\
    refusal-checks gate ORG/MODEL --judge openai/gpt-oss-20b --junitxml=report.xml
    refusal-checks gate demo:aligned --judge bundled --thresholds smoke    (models to try it with)
in a test file that imports refusal_checks.suite:
    pytest --candidate=ORG/MODEL --judge=openai/gpt-oss-20b"""


@dataclass(frozen=True)
class Baseline:
    """The earlier run to compare with, if any; ``is_required`` by every gate with a margin."""

    path: Path | None = None
    allow_incomparable: bool = False
    is_required: bool = False


@dataclass(frozen=True)
class Trust:
    """What a run knows about its judge besides its verdicts.

    Attributes:
        floors: of its figures on the canary; None if it is not checked.
        form: how a classifier is asked, if a threshold file says so.
        calibration: its errors on human labels.
        labels: human labels of a random sample of this run's answers.
        repeats: how often each answer is judged, to see if the judge agrees with itself.
    """

    floors: JudgeFloors | None = None
    form: settings.ClassifierForm | None = None
    allow_untrusted: bool = False
    calibration: Calibration | None = None
    calibration_file: Path | None = None
    labels: HumanLabels | None = None
    repeats: int = 1


@dataclass(frozen=True)
class Options:
    """All settings of one run; ``prepare`` hands each part to what needs it.

    With a mirror of public data, nothing is downloaded. ``rules`` know nothing of people's verdicts
    yet.
    """

    answering: Answering
    judging: Judging
    store: Path
    fresh: bool = False
    retry_unfinished: bool = False
    benchmarks: Mapping[str, Benchmark] = field(default_factory=dict)
    mirror: Path | None = None
    multiple_choice: settings.MultipleChoice = field(default_factory=settings.MultipleChoice)
    limits: settings.Limits = field(default_factory=settings.Limits)
    placement: PlacementRequest = field(default_factory=PlacementRequest)
    trust: Trust = field(default_factory=Trust)
    rules: Rules = field(default_factory=Rules)
    baseline: Baseline = field(default_factory=Baseline)
    threshold_files: tuple[Path, ...] = ()
    stop_early: bool = False
    redact: bool = False
    notes: tuple[str, ...] = ()


def add(group: pytest.OptionGroup) -> None:
    model_options.add(group)
    add = group.addoption
    add(
        "--thresholds",
        metavar="FILE",
        action="append",
        help="threshold file (repeatable, later ones win), or the name of a shipped one: "
        f"{', '.join(toml_file.names())}; default: the repository's thresholds/default.toml, else "
        "the shipped one",
    )
    declare(group, settings.Sampling)
    add("--system-prompt-file", metavar="FILE", help="read --system-prompt from this file")
    add("--limit", metavar="N", type=int, help="most prompts per benchmark, a stratified sample")
    declare(group, settings.JudgeSampling, "judge_")
    declare(group, settings.Writing)
    declare(group, settings.Cascading, "cascade_")
    declare(group, settings.MultipleChoice, "mcq_")
    declare(group, settings.Limits)
    recorded.add_replay(group)
    add("--data", metavar="DIR", help="local mirror of public data ($REFUSAL_CHECKS_DATA)")
    add("--store", metavar="FILE", help="stored answers (.refusal-checks/store.sqlite)")
    add(
        "--fresh",
        action="store_true",
        help="ask for everything anew; what is stored of these models is not used any more, by "
        "this run or a later one",
    )
    add(
        "--retry-unfinished",
        action="store_true",
        help="ask again for stored answers that the server ended for its own reasons (as by a "
        "content filter)",
    )
    add("--runs", metavar="DIR", help="folder of the runs ($REFUSAL_CHECKS_RUNS)")
    add(
        "--baseline",
        metavar="PATH",
        help="compare with an earlier run, prompt by prompt: last, an id, a run's folder, its "
        "summary.json, or what `refusal-checks baseline accept RUN DIR` wrote",
    )
    add(
        "--allow-incomparable",
        action="store_true",
        help="compare with the baseline even if judge, data or sampling differ",
    )
    add("--stop-early", action="store_true", help="end a benchmark once its gates are decided")
    add_trust(group)
    recorded.add_batch(group)
    model_options.add_engines(group)
    add_redact(group)
    add(
        "--offenders",
        metavar="N",
        type=int,
        default=5,
        help="prompts that a failed gate lists (default: 5)",
    )


def add_trust(group: pytest.OptionGroup) -> None:
    add = group.addoption
    add(
        "--allow-untrusted-judge",
        action="store_true",
        help="decide gates even if the judge fails its own check",
    )
    add(
        "--calibration",
        metavar="FILE",
        help="the judge's errors, written by `refusal-checks calibrate --out`: show corrected "
        "rates beside the raw ones",
    )
    add(
        "--human-labels",
        metavar="FILE",
        action="append",
        help="labels of a random sample of this run's answers, from `refusal-checks "
        "sample-for-labels`: estimate the rates that people would find (repeatable)",
    )
    add(
        "--allow-undrawn-labels",
        action="store_true",
        help="accept --human-labels that were not drawn by sample-for-labels: they are shown, and "
        "decide nothing unless they cover every prompt",
    )
    add(
        "--judge-repeats",
        metavar="R",
        type=int,
        default=1,
        help="judge each answer R times with different seeds and show how many verdicts flip (1)",
    )


def threshold_files(config: Call) -> tuple[Path, ...]:
    """The threshold files of this run: named, else the repository's own, else the shipped one."""
    named: list[str] | None = config.getoption("thresholds")
    if named:
        return tuple(toml_file.find(config.folder / name) for name in named)
    own = config.rootpath / "thresholds" / "default.toml"
    return (own if own.is_file() else toml_file.DEFAULT,)


def load_thresholds(config: Call) -> Thresholds:
    extensions.require_sound()
    return load_gates(threshold_files(config), benchmarks.discover())


def read(config: Call, thresholds: Thresholds) -> tuple[Options, ...]:
    """Read and check all other options: the settings of one run per candidate."""
    missing = [f"--{role}" for role in ("candidate", "judge") if not config.getoption(role)]
    if missing:
        names = " and ".join(missing)
        raise UserError(f"{names} missing: name the model under test and its judge:\n{COMMANDS}")
    for option, least in (("limit", 1), ("offenders", 0), ("judge-repeats", 1)):
        if (value := config.getoption(option)) is not None and value < least:
            raise UserError(f"--{option} {value}: must be at least {least}")
    run_folder.require_writable(config.runs, "--runs")
    store, data, stop_early = map(config.getoption, ("store", "data", "stop_early"))
    if store and (config.folder / store).is_dir():
        raise UserError(f"--store {store}: name a file: it is a folder")
    mirror = mirror_folder(str(config.folder / data) if data else None)
    candidates = model_options.read_candidates(config)
    trust = _trust(config, thresholds.judge)
    judging = model_options.read_judging(config, trust.repeats)
    model_options.require_engine(config, [*candidates, *judging.models])
    answering = Answering(
        candidates[0],
        read_settings(config, settings.Sampling, {**thresholds.sampling, **_system_prompt(config)}),
        recorded.read_replay(config, candidates),
    )
    shared = Options(
        answering=answering,
        judging=judging,
        store=config.folder / store if store else config.own_folder / "store.sqlite",
        fresh=config.getoption("fresh"),
        retry_unfinished=config.getoption("retry_unfinished"),
        benchmarks=_benchmarks(thresholds, mirror, config.getoption("limit")),
        mirror=mirror,
        multiple_choice=read_settings(config, settings.MultipleChoice, {}, "mcq_"),
        limits=read_settings(config, settings.Limits, {}),
        placement=model_options.read_placement(config),
        rules=Rules(
            thresholds.settings.confidence,
            thresholds.settings.multiple_testing,
            config.getoption("offenders"),
            watched=stop_early,
        ),
        baseline=Baseline(
            _baseline(config),
            config.getoption("allow_incomparable"),
            thresholds.settings.require_baseline,
        ),
        threshold_files=threshold_files(config),
        stop_early=stop_early,
        redact=is_redacted(config.getoption("redact")),
    )
    found = []
    titled = zip(candidates, model_options.titles(config), strict=True)
    for number, (model, title) in enumerate(titled, 1):
        own, notes = trust.labels, thresholds.notes
        if trust.labels:  # a sheet may be of another candidate's answers
            others = {one.name for one in candidates} - {model.name}
            own = trust.labels.among(model.name, others)
            if not own:
                notes += (f"{trust.labels.name}: no human labels of answers of {model.name}",)
        each = replace(answering, model=model, title=title, number=number)
        known = replace(trust, labels=own)
        found.append(replace(shared, answering=each, trust=known, notes=notes))
    return tuple(found)


def _benchmarks(
    thresholds: Thresholds, mirror: Path | None, limit: int | None
) -> dict[str, Benchmark]:
    """All benchmarks as this run evaluates them; the command line wins over threshold files."""
    tuned = {}
    known = benchmarks.catalogue(thresholds.tables, thresholds.attacked)
    for name, benchmark in known.items():
        table = thresholds.tables.get(name) or settings.BenchmarkTable()
        tuned[name] = replace(
            benchmark.at(mirror),
            limit=limit or table.limit,
            usual_limit=table.limit,
            max_answer_chars=table.max_answer_chars,
        )
    return tuned


def _baseline(config: Call) -> Path | None:
    name: str | None = config.getoption("baseline")
    if not name:
        return None
    if name != run_folder.LAST and (path := config.folder / name).exists():
        return path
    try:
        return run_folder.find(name, config.runs).path
    except DataError as fault:
        why = str(fault).removeprefix(f"{name}: ")
        raise BaselineError(
            f"--baseline {name}: name the folder that `refusal-checks baseline accept RUN DIR` "
            f"wrote, or a run: {why}"
        ) from None


def _system_prompt(config: Call) -> dict[str, str]:
    name = config.getoption("system_prompt_file")
    if not name:
        return {}
    if config.getoption("system_prompt"):
        raise UserError("--system-prompt and --system-prompt-file: give one of them")
    try:
        return {"system_prompt": (config.folder / name).read_text(encoding="utf-8").strip()}
    except OSError as fault:
        why = why_no_file(config.folder / name) or f"cannot be read: {fault.strerror}"
        raise UserError(f"--system-prompt-file {name}: {why}") from None
    except UnicodeDecodeError:
        raise UserError(f"--system-prompt-file {name}: save it as UTF-8") from None


def _trust(config: Call, floors: JudgeFloors | None) -> Trust:
    from refusal_checks.judges.trust.labels import read_labels  # HTTP: not for collection

    calibrated, repeats = config.getoption("calibration"), config.getoption("judge_repeats")
    path = config.folder / calibrated if calibrated else None
    named = config.getoption("human_labels") or ()
    sheets = [config.folder / name for name in named]
    for option, file, remedy in (
        *(("human-labels", name, "sample-for-labels RUN") for name in named),
        *([("calibration", calibrated, "calibrate --out FILE")] if calibrated else ()),
    ):
        if why := why_no_file(config.folder / file, f"; `refusal-checks {remedy}` writes one"):
            raise CalibrationError(f"--{option} {file}: {why}")
    if config.getoption("stop_early"):
        if repeats > 1:
            raise UserError(
                "--judge-repeats: leave out --stop-early: repeats need whole benchmarks"
            )
        if path or sheets:
            raise CalibrationError(
                "--calibration, --human-labels: leave out --stop-early: they need whole benchmarks"
            )
    return Trust(
        floors=floors if floors and floors.figures else None,
        form=floors.form if floors else None,
        allow_untrusted=config.getoption("allow_untrusted_judge"),
        calibration=calibration.read(path) if path else None,
        calibration_file=path,
        labels=read_labels(sheets, config.getoption("allow_undrawn_labels")) if sheets else None,
        repeats=repeats,
    )
