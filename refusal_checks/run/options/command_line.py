"""The command line: pytest options, and the settings that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from refusal_checks import benchmarks
from refusal_checks.benchmarks import Benchmark
from refusal_checks.benchmarks.pinned_file import mirror_folder
from refusal_checks.core.errors import UserError
from refusal_checks.core.settings import (
    BenchmarkTable,
    JudgeSampling,
    Limits,
    MultipleChoice,
    Sampling,
)
from refusal_checks.engines.placement.values import PlacementRequest
from refusal_checks.gates.bounds import MultipleTesting
from refusal_checks.gates.threshold_files import Thresholds, load
from refusal_checks.models import spec
from refusal_checks.models.replay import columns as replay_columns
from refusal_checks.run.options import batch as batch_options
from refusal_checks.run.options import fields, redact
from refusal_checks.run.options import judge as judge_options
from refusal_checks.run.options import models as model_options
from refusal_checks.run.options import placement as placement_options
from refusal_checks.run.options.judge import Trust
from refusal_checks.run.options.models import NamedJudge

COMMANDS = """\
    pytest --candidate ORG/MODEL --judge openai/gpt-oss-20b --junitxml report.xml
    make gate        (demo models, bundled prompts, no GPU needed)"""


@dataclass(frozen=True)
class Options:
    """What a run needs to know.

    Attributes:
        replay_columns: column by field, for recorded answers.
        benchmarks: all that can be evaluated, by name, as the mirror serves them.
        mirror: folder with local copies of public data; nothing is fetched then.
        store: file of completions and judgements.
        fresh: ignore what is stored.
        offenders: most offenders that a breached gate names.
        multiple_testing: correction over the gates of a benchmark.
        baseline: where the scores of an earlier run are; allow_incomparable: compare with it
            whatever is different.
        stop_early: evaluate no more of a benchmark than its gates need; redact: show no texts.
        number: which of the candidates it is, from 1.
        notes: what the user should know of the threshold files, for the run's notes.
    """

    candidate: spec.Candidate
    judges: tuple[NamedJudge, ...]
    sampling: Sampling
    judge_sampling: JudgeSampling
    multiple_choice: MultipleChoice
    limits: Limits
    confidence: float
    replay_columns: Mapping[str, str]
    threshold_files: tuple[Path, ...]
    benchmarks: Mapping[str, Benchmark]
    mirror: Path | None
    store: Path
    fresh: bool
    offenders: int
    multiple_testing: MultipleTesting = "none"
    baseline: Path | None = None
    allow_incomparable: bool = False
    stop_early: bool = False
    redact: bool = False
    trust: Trust = field(default_factory=Trust)
    placement: PlacementRequest = field(default_factory=PlacementRequest)
    number: int = 1
    notes: tuple[str, ...] = ()

    @property
    def model_names(self) -> tuple[str, ...]:
        """Candidate and judges as the user named them."""
        return (self.candidate.name, *(judge.name for judge in self.judges))


def add(group: pytest.OptionGroup) -> None:
    """Declare the options."""
    model_options.add(group)
    add = group.addoption
    add(
        "--thresholds",
        metavar="FILE",
        action="append",
        help="threshold file (repeatable, later wins); default: thresholds/default.toml",
    )
    fields.add(group, Sampling)
    add("--system-prompt-file", metavar="FILE", help="read --system-prompt from this file")
    add("--limit", metavar="N", type=int, help="most prompts per benchmark, a stratified sample")
    fields.add(group, JudgeSampling, "judge_")
    fields.add(group, MultipleChoice, "mcq_")
    fields.add(group, Limits)
    add(
        "--replay-columns",
        metavar="FIELD=COLUMN,...",
        default="",
        help="columns of recorded answers: id, prompt, completion, label, logprob",
    )
    add("--data", metavar="DIR", help="local mirror of public data ($REFUSAL_CHECKS_DATA)")
    add("--store", metavar="FILE", help="stored answers (.refusal-checks/store.sqlite)")
    add("--fresh", action="store_true", help="ignore stored answers and verdicts")
    add(
        "--baseline",
        metavar="PATH",
        help="compare with an earlier run, prompt by prompt: a run's folder, its summary.json, or "
        "what `refusal-checks baseline accept RUN DIR` wrote",
    )
    add(
        "--allow-incomparable",
        action="store_true",
        help="compare with the baseline though judge, data or sampling are others",
    )
    add("--stop-early", action="store_true", help="end a benchmark once its gates are decided")
    judge_options.add(group)
    batch_options.add(group)
    placement_options.add(group)
    redact.add(group)
    add("--offenders", metavar="INT", type=int, default=5, help="offenders a failure names (5)")


def threshold_files(config: pytest.Config) -> tuple[Path, ...]:
    """The threshold files of this run."""
    named: list[str] | None = config.getoption("thresholds")
    if not named:
        return (config.rootpath / "thresholds" / "default.toml",)
    return tuple(_path(config, name) for name in named)


def names_thresholds(config: pytest.Config) -> bool:
    """Whether threshold files are named, or lie where they are looked for."""
    return bool(config.getoption("thresholds")) or threshold_files(config)[0].is_file()


def own_folder(config: pytest.Config) -> Path:
    """Where stores and runs go unless the user says otherwise."""
    return config.rootpath / ".refusal-checks"


def _path(config: pytest.Config, name: str) -> Path:
    """A path as the user meant it: relative to where pytest was called."""
    return config.invocation_params.dir / name


def load_thresholds(config: pytest.Config) -> Thresholds:
    """The run's gates; reads no data.

    Raises:
        ThresholdError: a threshold file is wrong.
    """
    return load(threshold_files(config), benchmarks.discover())


def read(config: pytest.Config, found: Thresholds) -> tuple[Options, ...]:
    """Everything else, checked: the settings of one run for each candidate.

    Raises:
        UserError: a missing or a wrong option; the message names it.
    """
    candidate, judge = config.getoption("candidate"), config.getoption("judge")
    if not candidate or not judge:
        missing = " and ".join(
            name for name, value in (("--candidate", candidate), ("--judge", judge)) if not value
        )
        raise UserError(f"{missing} missing: name the model under test and its judge:\n{COMMANDS}")
    store = config.getoption("store")
    if (limit := config.getoption("limit")) is not None and limit < 1:
        raise UserError(f"--limit {limit}: must be at least 1")
    baseline = config.getoption("baseline")
    offenders = config.getoption("offenders")
    if offenders < 0:
        raise UserError(f"--offenders {offenders}: must not be negative")
    data = config.getoption("data")
    mirror = mirror_folder(str(_path(config, data)) if data else None)
    known = benchmarks.catalogue(found.tables)
    candidates = model_options.read_candidates(config)
    judges = model_options.read_judges(config)
    placement_options.require_engine(config, [*candidates, *(judge.model for judge in judges)])
    first = Options(
        candidate=candidates[0],
        judges=judges,
        sampling=fields.read(config, Sampling, {**found.sampling, **_system_prompt(config)}),
        judge_sampling=fields.read(config, JudgeSampling, {}, "judge_"),
        multiple_choice=fields.read(config, MultipleChoice, {}, "mcq_"),
        limits=fields.read(config, Limits, {}),
        confidence=found.settings.confidence,
        replay_columns=replay_columns(config.getoption("replay_columns")),
        threshold_files=threshold_files(config),
        benchmarks={
            name: _tuned(known[name].at(mirror), found.tables.get(name), limit) for name in known
        },
        mirror=mirror,
        store=_path(config, store) if store else own_folder(config) / "store.sqlite",
        fresh=config.getoption("fresh"),
        offenders=offenders,
        multiple_testing=found.settings.multiple_testing,
        baseline=_path(config, baseline) if baseline else None,
        allow_incomparable=config.getoption("allow_incomparable"),
        stop_early=config.getoption("stop_early"),
        redact=redact.is_wanted(config.getoption("redact")),
        trust=judge_options.read(config, found.judge),
        placement=placement_options.read(config),
        notes=found.notes,
    )
    return tuple(replace(first, candidate=one, number=n) for n, one in enumerate(candidates, 1))


def for_recorded(
    judges: tuple[NamedJudge, ...],
    recorded: spec.Replay,
    judge_sampling: JudgeSampling,
    limits: Limits,
    store: Path,
    fresh: bool,
) -> Options:
    """What judging recorded answers needs to know, outside of a gate run."""
    return Options(
        candidate=recorded,
        judges=judges,
        sampling=Sampling(),
        judge_sampling=judge_sampling,
        multiple_choice=MultipleChoice(),
        limits=limits,
        confidence=0.95,
        replay_columns={},
        threshold_files=(),
        benchmarks={},
        mirror=None,
        store=store,
        fresh=fresh,
        offenders=0,
    )


def _tuned(benchmark: Benchmark, table: BenchmarkTable | None, limit: int | None) -> Benchmark:
    """The benchmark as this run evaluates it; the command line wins over threshold files."""
    table = table or BenchmarkTable()
    return replace(benchmark, limit=limit or table.limit, max_answer_chars=table.max_answer_chars)


def _system_prompt(config: pytest.Config) -> dict[str, str]:
    """The system prompt that a file holds, if one is named."""
    name = config.getoption("system_prompt_file")
    if not name:
        return {}
    if config.getoption("system_prompt"):
        raise UserError("--system-prompt and --system-prompt-file: give one of them")
    try:
        return {"system_prompt": _path(config, name).read_text(encoding="utf-8").strip()}
    except (OSError, UnicodeDecodeError) as fault:
        raise UserError(f"--system-prompt-file {name}: cannot be read: {fault}") from None
