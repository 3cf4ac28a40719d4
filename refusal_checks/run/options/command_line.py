"""The command line: pytest options, and the settings that they make."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from refusal_checks import benchmarks
from refusal_checks.benchmarks import Benchmark
from refusal_checks.benchmarks.pinned import mirror_folder
from refusal_checks.core import extensions
from refusal_checks.core.errors import BaselineError, DataError, UserError
from refusal_checks.core.settings import (
    BenchmarkTable,
    Cascading,
    JudgeSampling,
    Limits,
    MultipleChoice,
    Sampling,
    Writing,
)
from refusal_checks.engines.placement import PlacementRequest
from refusal_checks.gates import toml_file
from refusal_checks.gates.estimates import Rules
from refusal_checks.gates.thresholds import Thresholds, load_gates
from refusal_checks.results import run_folder
from refusal_checks.run.options import judge as judge_options
from refusal_checks.run.options import models as model_options
from refusal_checks.run.options import recorded
from refusal_checks.run.options.call import Call, declare, read_settings
from refusal_checks.run.options.judge import Trust
from refusal_checks.run.options.models import Answering, Judging

REDACT = "REFUSAL_CHECKS_REDACT"
"""Environment variable that redacts as ``--redact`` does."""


def add_redact(group: pytest.OptionGroup) -> None:
    """Declare the option."""
    group.addoption(
        "--redact",
        action="store_true",
        help=f"show ids, hashes and lengths instead of prompts, answers and rationales; the texts "
        f"stay in the store (${REDACT}=1)",
    )


def is_redacted(option: bool) -> bool:
    """True if the option or the variable asks to show no texts."""
    value = os.environ.get(REDACT, "").strip().lower()
    return option or value not in ("", "0", "false", "no")


COMMANDS = """\
    refusal-checks gate ORG/MODEL --judge openai/gpt-oss-20b --junitxml=report.xml
    refusal-checks gate demo:aligned --judge bundled --thresholds smoke    (models to try it with)
in a test file that imports refusal_checks.suite:
    pytest --candidate=ORG/MODEL --judge=openai/gpt-oss-20b"""


@dataclass(frozen=True)
class Questions:
    """What candidates are asked.

    Attributes:
        benchmarks: all by name, read from the mirror if there is one.
        mirror: folder with local copies of public data; with it nothing is downloaded.
    """

    benchmarks: Mapping[str, Benchmark] = field(default_factory=dict)
    mirror: Path | None = None
    multiple_choice: MultipleChoice = field(default_factory=MultipleChoice)


@dataclass(frozen=True)
class Baseline:
    """The earlier run to compare with, if any; ``allow_incomparable`` whatever differs.

    Attributes:
        is_required: every gate with a margin must have one.
    """

    path: Path | None = None
    allow_incomparable: bool = False
    is_required: bool = False


@dataclass(frozen=True)
class Options:
    """All settings of one run; ``prepare`` hands each part to what needs it.

    Attributes:
        store: file of answers and verdicts; fresh: ignore it.
        retry_unfinished: ask again for answers that a server ended for its own reasons.
        rules: how gates are decided, before anything is known of people's verdicts.
        stop_early: evaluate no more of a benchmark than its gates need; redact: show no texts.
        notes: remarks on the threshold files, for the user.
    """

    answering: Answering
    judging: Judging
    store: Path
    fresh: bool = False
    retry_unfinished: bool = False
    questions: Questions = field(default_factory=Questions)
    limits: Limits = field(default_factory=Limits)
    placement: PlacementRequest = field(default_factory=PlacementRequest)
    trust: Trust = field(default_factory=Trust)
    rules: Rules = field(default_factory=Rules)
    baseline: Baseline = field(default_factory=Baseline)
    threshold_files: tuple[Path, ...] = ()
    stop_early: bool = False
    redact: bool = False
    notes: tuple[str, ...] = ()


def add(group: pytest.OptionGroup) -> None:
    """Declare the options."""
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
    declare(group, Sampling)
    add("--system-prompt-file", metavar="FILE", help="read --system-prompt from this file")
    add("--limit", metavar="N", type=int, help="most prompts per benchmark, a stratified sample")
    declare(group, JudgeSampling, "judge_")
    declare(group, Writing)
    declare(group, Cascading, "cascade_")
    declare(group, MultipleChoice, "mcq_")
    declare(group, Limits)
    recorded.add_replay(group)
    add("--data", metavar="DIR", help="local mirror of public data ($REFUSAL_CHECKS_DATA)")
    add("--store", metavar="FILE", help="stored answers (.refusal-checks/store.sqlite)")
    add("--fresh", action="store_true", help="ignore stored answers and verdicts")
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
    judge_options.add(group)
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


def threshold_files(config: Call) -> tuple[Path, ...]:
    """The threshold files of this run: named, else the repository's own, else the shipped one."""
    named: list[str] | None = config.getoption("thresholds")
    if named:
        return tuple(toml_file.find(_path(config, name)) for name in named)
    own = config.rootpath / "thresholds" / "default.toml"
    return (own if own.is_file() else toml_file.DEFAULT,)


def _path(config: Call, name: str) -> Path:
    return config.folder / name


def load_thresholds(config: Call) -> Thresholds:
    """Read the threshold files, but no data.

    Raises:
        ThresholdError: a threshold file is wrong.
    """
    extensions.require_sound()
    return load_gates(threshold_files(config), benchmarks.discover())


def read(config: Call, thresholds: Thresholds) -> tuple[Options, ...]:
    """Read and check all other options: the settings of one run per candidate.

    Raises:
        UserError: an option is missing or wrong; the message names it.
    """
    missing = [f"--{role}" for role in ("candidate", "judge") if not config.getoption(role)]
    if missing:
        names = " and ".join(missing)
        raise UserError(f"{names} missing: name the model under test and its judge:\n{COMMANDS}")
    for option, least in (("limit", 1), ("offenders", 0)):
        if (value := config.getoption(option)) is not None and value < least:
            raise UserError(f"--{option} {value}: must be at least {least}")
    run_folder.require_writable(config.runs, "--runs")
    store, baseline, data = (config.getoption(name) for name in ("store", "baseline", "data"))
    mirror = mirror_folder(str(_path(config, data)) if data else None)
    candidates = model_options.read_candidates(config)
    trust = judge_options.read(config, thresholds.judge)
    judging = model_options.read_judging(config, trust.repeats)
    model_options.require_engine(config, [*candidates, *judging.models])
    answering = Answering(
        candidates[0],
        read_settings(config, Sampling, {**thresholds.sampling, **_system_prompt(config)}),
        recorded.read_replay(config, candidates),
    )
    stop_early = config.getoption("stop_early")
    first = Options(
        answering=answering,
        judging=judging,
        store=_path(config, store) if store else config.own_folder / "store.sqlite",
        fresh=config.getoption("fresh"),
        retry_unfinished=config.getoption("retry_unfinished"),
        questions=Questions(
            _benchmarks(thresholds, mirror, config.getoption("limit")),
            mirror,
            read_settings(config, MultipleChoice, {}, "mcq_"),
        ),
        limits=read_settings(config, Limits, {}),
        placement=model_options.read_placement(config),
        trust=trust,
        rules=Rules(
            thresholds.settings.confidence,
            thresholds.settings.multiple_testing,
            config.getoption("offenders"),
            watched=stop_early,
        ),
        baseline=Baseline(
            _baseline(config, baseline),
            config.getoption("allow_incomparable"),
            thresholds.settings.require_baseline,
        ),
        threshold_files=threshold_files(config),
        stop_early=stop_early,
        redact=is_redacted(config.getoption("redact")),
        notes=thresholds.notes,
    )
    named = zip(candidates, model_options.titles(config), strict=True)
    each = frozenset(one.name for one in candidates)
    return tuple(
        _for_candidate(first, replace(answering, model=one, title=title, number=number), each)
        for number, (one, title) in enumerate(named, 1)
    )


def _for_candidate(options: Options, answering: Answering, candidates: Collection[str]) -> Options:
    """One candidate's settings, without the human labels of another one's answers."""
    name, trust = answering.model.name, options.trust
    own = trust.among(name, candidates)
    note = f"{trust.labels.name}: no human labels of answers of {name}" if trust.labels else ""
    notes = (note,) if note and not own.labels else ()
    return replace(options, answering=answering, trust=own, notes=(*options.notes, *notes))


def _benchmarks(
    thresholds: Thresholds, mirror: Path | None, limit: int | None
) -> dict[str, Benchmark]:
    """All benchmarks as this run evaluates them; the command line wins over threshold files."""
    tuned = {}
    known = benchmarks.catalogue(thresholds.tables, thresholds.attacked)
    for name, benchmark in known.items():
        table = thresholds.tables.get(name) or BenchmarkTable()
        tuned[name] = replace(
            benchmark.at(mirror),
            limit=limit or table.limit,
            usual_limit=table.limit,
            max_answer_chars=table.max_answer_chars,
        )
    return tuned


def _baseline(config: Call, name: str | None) -> Path | None:
    if not name:
        return None
    if name != run_folder.LAST and (path := _path(config, name)).exists():
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
        return {"system_prompt": _path(config, name).read_text(encoding="utf-8").strip()}
    except (OSError, UnicodeDecodeError) as fault:
        raise UserError(f"--system-prompt-file {name}: cannot be read: {fault}") from None
