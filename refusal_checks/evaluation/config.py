"""What a run is told, made from its ``RunSpec``: models are parsed, and files are read.

A spec holds what a user wrote; here are the values that the parts of an evaluation take.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from refusal_checks.benchmarks import Benchmark
from refusal_checks.benchmarks.pinned import mirror_folder
from refusal_checks.core import settings
from refusal_checks.core.errors import (
    BaselineError,
    CalibrationError,
    DataError,
    ModelError,
    UserError,
)
from refusal_checks.core.files import resolved, why_no_file
from refusal_checks.core.sampling import JudgeSampling, Sampling
from refusal_checks.core.settings import RequestPace
from refusal_checks.engines import kinds
from refusal_checks.engines.placement import PlacementRequest
from refusal_checks.gates.estimates import Rules
from refusal_checks.judges.rules import require_meanings
from refusal_checks.judges.trust import calibration
from refusal_checks.judges.trust.calibration import Calibration
from refusal_checks.judges.trust.floors import JudgeFloors
from refusal_checks.models import names as models
from refusal_checks.models import provided
from refusal_checks.models.model_files import reasons
from refusal_checks.models.names import CandidateModel, JudgeModel, Replay, Served
from refusal_checks.models.recordings.columns import ReplayOptions
from refusal_checks.results import project, run_folder
from refusal_checks.results.redact import is_redacted
from refusal_checks.spec import ModelTable, RecordingTable, RunSpec

if TYPE_CHECKING:
    from refusal_checks.judges.trust.labels import HumanLabels


Value = TypeVar("Value")


@dataclass(frozen=True)
class NamedJudge:
    """One judge of a run; repeated names get a number. The template replaces its own prompt."""

    name: str
    model: JudgeModel
    template: str | None = None


@dataclass(frozen=True)
class CandidateConfig:
    """The candidate, its number among several, and how its answers are drawn or read."""

    model: CandidateModel
    sampling: Sampling = field(default_factory=Sampling)
    replay: ReplayOptions = field(default_factory=ReplayOptions)
    title: str = ""
    number: int = 1


@dataclass(frozen=True)
class JudgeConfig:
    """The judges, and all that their verdicts depend on besides what they read."""

    judges: tuple[NamedJudge, ...]
    sampling: JudgeSampling = field(default_factory=JudgeSampling)
    cascade: settings.Cascading = field(default_factory=settings.Cascading)
    rationales: settings.Rationales = "all"

    @property
    def models(self) -> tuple[JudgeModel, ...]:
        return tuple(judge.model for judge in self.judges)

    def sampling_of(self, judge: NamedJudge) -> JudgeSampling:
        """How one of the judges writes its verdicts."""
        return self.sampling.of_reasoning if reasons(judge.model) else self.sampling


@dataclass(frozen=True)
class BaselineConfig:
    """The earlier run to compare with, if any; ``is_required`` by every gate with a margin."""

    path: Path | None = None
    allow_incomparable: bool = False
    is_required: bool = False


@dataclass(frozen=True)
class TrustConfig:
    """What a run knows about its judge besides its verdicts.

    Attributes:
        floors: of its figures on the canary; None if it is not checked.
        form: how a classifier is asked, if a run file says so.
        calibration: its errors on human labels.
        labels: human labels of a random sample of this run's answers.
    """

    floors: JudgeFloors | None = None
    form: settings.ClassifierForm | None = None
    allow_untrusted: bool = False
    calibration: Calibration | None = None
    calibration_file: Path | None = None
    labels: HumanLabels | None = None


@dataclass(frozen=True)
class EngineConfig:
    """How engines are started and placed, and how fast servers may be asked, by role."""

    placement: PlacementRequest = field(default_factory=PlacementRequest)
    start_timeout: float = 1800.0
    paces: Mapping[str, RequestPace] = field(default_factory=dict)


@dataclass(frozen=True)
class Folders:
    """Where a project keeps its store and its runs."""

    own: Path  # the folder of both, unless they are elsewhere
    runs: Path


@dataclass(frozen=True)
class RunConfig:
    """All that one candidate's run is told; ``prepare`` hands each part to what needs it.

    With a mirror of public data, nothing is downloaded. ``rules`` know nothing of people's verdicts
    yet. ``written`` are the keys of the spec that were set, for the manifest.
    """

    answering: CandidateConfig
    judging: JudgeConfig
    store: Path
    fresh: bool = False
    stored_only: bool = False
    retry_unfinished: bool = False
    benchmarks: Mapping[str, Benchmark] = field(default_factory=dict)
    mirror: Path | None = None
    multiple_choice: settings.MultipleChoice = field(
        default_factory=settings.MultipleChoice
    )
    limits: settings.Limits = field(default_factory=settings.Limits)
    engine: EngineConfig = field(default_factory=EngineConfig)
    trust: TrustConfig = field(default_factory=TrustConfig)
    rules: Rules = field(default_factory=Rules)
    baseline: BaselineConfig = field(default_factory=BaselineConfig)
    files: tuple[Path, ...] = ()
    redact: bool = False
    notes: tuple[str, ...] = ()
    written: Mapping[str, object] = field(default_factory=dict)

    @property
    def models(self) -> tuple[CandidateModel | JudgeModel, ...]:
        return (self.answering.model, *self.judging.models)


COMMANDS = """\
    refusal-checks gate ORG/MODEL --judge openai/gpt-oss-20b --junitxml=report.xml
    refusal-checks gate demo:aligned --judge bundled --thresholds smoke    (models to try it with)
in a test file that imports refusal_checks.suite:
    pytest --candidate=ORG/MODEL --judge=openai/gpt-oss-20b"""


def folders(
    spec: RunSpec, own: Path | None = None, runs: Path | None = None
) -> Folders:
    """Where a run is kept: as the spec says, else in these folders, else as in the project."""
    own = own or project.usual_folder()
    if spec.reports.runs:
        runs = Path(spec.reports.runs).expanduser()
    # Whole paths: a result is read from its folder wherever the process has gone since.
    return Folders(resolved(own), resolved(runs or project.usual_root()))


def configure(spec: RunSpec, kept: Folders) -> tuple[RunConfig, ...]:
    """Check a spec, and read what it names: what each candidate's run is told.

    Raises:
        UserError: a key is missing or wrong, or a file that it names cannot be used.
    """
    missing = [
        f"--{role}" for role in ("candidate", "judge") if not getattr(spec, role).model
    ]
    if missing:
        names = " and ".join(missing)
        raise UserError(
            f"{names} missing: name the model under test and its judge, as model in [candidate] "
            f"and [judge] of the run file, or on the command line:\n{COMMANDS}"
        )
    with _where_written(spec, "reports.runs", "--runs"):
        run_folder.require_writable(kept.runs, "--runs")
    store = Path.cwd() / (spec.store.file or kept.own / "store.sqlite")
    if store.is_dir():
        raise UserError(f"{spec.where('store.file')}: name a file: {store} is a folder")
    if spec.store.only and spec.store.fresh:
        raise UserError("--stored-only and --fresh: give one of them")
    candidates = read_candidates(spec)
    judging = read_judges(spec)
    _require_engine(spec, [*candidates, *judging.models])
    mirror = mirror_folder(spec.data.mirror or None)
    trust = _trust(spec)
    answering = CandidateConfig(
        candidates[0], spec.sampling.drawn, read_replay(spec.recording, candidates)
    )
    shared = RunConfig(
        answering=answering,
        judging=judging,
        store=store,
        fresh=spec.store.fresh,
        stored_only=spec.store.only,
        retry_unfinished=spec.store.retry_unfinished,
        benchmarks=_benchmarks(spec, mirror),
        mirror=mirror,
        multiple_choice=spec.multiple_choice,
        limits=spec.limits,
        engine=EngineConfig(_placement(spec), spec.engine.start_timeout, paces(spec)),
        rules=Rules(
            spec.settings.confidence,
            spec.settings.multiple_testing,
            spec.reports.offenders,
            watched=spec.limits.stop_early,
        ),
        baseline=BaselineConfig(
            _baseline(spec, kept.runs),
            spec.baseline.allow_incomparable,
            spec.settings.require_baseline,
        ),
        files=spec.files,
        redact=is_redacted(spec.reports.redact),
        written=spec.recorded(),
    )
    configs = []
    for number, (model, title) in enumerate(
        zip(candidates, titles(spec), strict=True), 1
    ):
        own, notes = trust.labels, spec.notes
        if trust.labels:  # a sheet may be of another candidate's answers
            others = {one.name for one in candidates} - {model.name}
            own = trust.labels.among(model.name, others)
            if not own:
                notes += (
                    f"{trust.labels.name}: no human labels of answers of {model.name}",
                )
        candidate = replace(answering, model=model, title=title, number=number)
        configs.append(
            replace(
                shared,
                answering=candidate,
                trust=replace(trust, labels=own),
                notes=notes,
            )
        )
    return tuple(configs)


@contextmanager
def _where_written(spec: RunSpec, key: str, option: str) -> Iterator[None]:
    """Have errors about an option's value name the place where it was written, if another one."""
    try:
        yield
    except UserError as fault:
        where, said = spec.where(key), str(fault)
        if where.startswith(option) or not said.startswith(option):
            raise
        raise type(fault)(
            f"{where}: {said.removeprefix(option).lstrip(': ')}"
        ) from None


# Models.


def titles(spec: RunSpec) -> tuple[str, ...]:
    """The candidates' names in ids and reports, all different."""
    given = spec.candidate.name
    if not given:
        return _shortest(_distinct(spec.candidate.model))
    with _where_written(spec, "candidate.name", "--candidate-name"):
        _require_names(given, len(spec.candidate.model))
    return given


def _require_names(given: Sequence[str], models_named: int) -> None:
    if len(given) != models_named:
        raise ModelError(
            "--candidate-name: give it once for each candidate, in their order, or not at all: it "
            f"is given {len(given)} times for {models_named}"
        )
    for name in given:
        if not name.strip() or given.count(name) > 1:
            raise ModelError(
                f'--candidate-name "{name}": give each candidate a name of its own'
            )


def _shortest(written: Sequence[str]) -> tuple[str, ...]:
    """The fewest last parts of each name that no other one has; the whole name where all agree."""
    parts = [name.rpartition("#")[2].strip("/").split("/") for name in written]
    shortest: list[str] = []
    for name, own in zip(written, parts, strict=True):
        others = [other for other in parts if other is not own]
        tails = (own[-count:] for count in range(1, len(own) + 1))
        tail = next(
            (t for t in tails if all(other[-len(t) :] != t for other in others)), None
        )
        shortest.append("/".join(tail) if tail and any(tail) else name)
    return tuple(shortest)


def _distinct(names: Sequence[str]) -> list[str]:
    """The names; those that occur more than once get a number."""
    return [
        f"{name} ({names[:index].count(name) + 1})" if names.count(name) > 1 else name
        for index, name in enumerate(names)
    ]


def read_candidates(spec: RunSpec) -> tuple[CandidateModel, ...]:
    named = spec.candidate.model
    extras = _read_extras(spec, "candidate", named)
    with _where_written(spec, "candidate.model", "--candidate"):
        parsed = [
            models.parse_candidate(*each) for each in zip(named, extras, strict=True)
        ]
    _require_different(
        "candidate", named, [replace(model, name="") for model in parsed]
    )
    titled = zip(_distinct(named), parsed, strict=True)
    return tuple(replace(model, name=name) for name, model in titled)


def read_judges(spec: RunSpec) -> JudgeConfig:
    named = spec.judge.model
    prompts = _spread(spec, "judge.prompt", spec.judge.prompt, named, "")
    extras = _read_extras(spec, "judge", named)
    with _where_written(spec, "judge.model", "--judge"):
        parsed = [models.parse_judge(*each) for each in zip(named, extras, strict=True)]
    judges = [
        NamedJudge(name, model, _prompt_for(model, prompt))
        for name, model, prompt in zip(_distinct(named), parsed, prompts, strict=True)
    ]
    _require_different(
        "judge", named, [(judge.model, judge.template) for judge in judges]
    )
    if all(isinstance(model, models.Rule) for model in parsed):
        _require_unset_for_rules(spec, ", ".join(judge.name for judge in judges))
    classifiers = [model.name for model in parsed if models.is_classifier(model)]
    for name in classifiers:
        if named.count(name) > 1:
            raise ModelError(
                f"--judge {name}: name it once, so that it does not count double"
            )
    others = [model for model in parsed if not isinstance(model, models.Rule)]
    if classifiers and len(classifiers) == len(others):
        for name, value in changed(spec.judge.sampling):
            raise UserError(
                f"{_said(spec, f'judge.{name}', value)}: leave it out, or name a model beside "
                f"{classifiers[0]} with a second --judge: {classifiers[0]} is a classifier, and "
                "draws nothing"
            )
    return JudgeConfig(
        tuple(judges), spec.judge.sampling, spec.judge.cascade, spec.judge.rationales
    )


def _prompt_for(model: JudgeModel, given: str) -> str | None:
    """The prompt of a judge: the user's, else the folder of prompts that came with its model."""
    if isinstance(model, models.Rule):
        return None
    if given:
        return given
    if isinstance(model, Served) and model.provided and model.provided.prompts:
        return str(model.provided.prompts)
    return None


def _require_unset_for_rules(spec: RunSpec, rules: str) -> None:
    """Refuse settings of models for judges that follow rules."""
    remedy = f"leave it out, or name a model with --judge: {rules}"
    if spec.judge.samples > 1:
        said = _said(spec, "judge.samples", spec.judge.samples)
        raise UserError(f"{said}: {remedy} gives the same verdict each time")
    if any(spec.judge.prompt):
        said = _said(spec, "judge.prompt", spec.judge.prompt[0])
        raise UserError(f"{said}: {remedy} has no prompt")


def _said(spec: RunSpec, key: str, value: object) -> str:
    """A key with its value, as the user wrote them."""
    where = spec.where(key)
    has_value = where.startswith(("--", f"{key} = "))
    return where if has_value else f"{where} = {value!r}"


def changed(given: settings.Frozen) -> list[tuple[str, object]]:
    fields = type(given).model_fields
    return [(name, value) for name, value in given if value != fields[name].default]


def _require_different(
    role: str, named: Sequence[str], identities: Sequence[object]
) -> None:
    for number, one in enumerate(identities):
        if one in identities[:number]:
            raise ModelError(
                f"--{role} {named[number]}: named twice with the same settings; name it once, so "
                f"that it does not count double, or give each its own {role}.template_variables"
            )


def _read_extras(spec: RunSpec, role: str, named: Sequence[str]) -> list[models.Extras]:
    """What each model of a role is given besides its name."""
    table: ModelTable = getattr(spec, role)
    args = _spread(spec, f"{role}.args", table.args, named, "")
    variables = _spread(
        spec,
        f"{role}.template_variables",
        table.template_variables,
        named,
        dict[str, object](),
    )
    ends = _spread(spec, f"{role}.reasoning_end", table.reasoning_end, named, "")
    engine = choose_engine(spec.engine.name, spec.engine.command)
    extras = []
    for own_args, own_variables, end in zip(args, variables, ends, strict=True):
        try:
            words = tuple(shlex.split(own_args))
        except ValueError as fault:
            where = _said(spec, f"{role}.args", own_args)
            raise ModelError(f"{where}: quote as in a shell: {fault}") from None
        extras.append(models.Extras(words, own_variables, end, *engine))
    return extras


def _spread(
    spec: RunSpec, key: str, values: Sequence[Value], named: Sequence[str], unset: Value
) -> Sequence[Value]:
    """The value of a key for each model: one for all, or one for each."""
    role = key.partition(".")[0]
    count = len(named)
    values = list(values) or [unset]
    if len(values) not in (1, count):
        raise ModelError(
            f"{spec.where(key)}: {len(values)} values for {count} --{role}: give one for all "
            f"{role}s, or one for each, in their order"
        )
    if len(values) < count:  # a value for all is not meant for a classifier
        return [unset if provided.is_classifier(name) else values[0] for name in named]
    for name, value in zip(named, values, strict=True):
        if value == unset or key == "judge.args":
            continue
        if provided.is_classifier(name):
            raise ModelError(
                f"{_said(spec, key, value)}: leave it out for {name}, or name a model beside it "
                "with a second --judge: it is a classifier and has no chat template"
            )
    return values


def choose_engine(name: str, command: str) -> tuple[str, tuple[str, ...]]:
    """The engine that a spec names, and the command that starts it; empty for its own."""
    try:
        program = tuple(shlex.split(command))
    except ValueError as fault:
        raise UserError(
            f"engine.command {command}: quote as in a shell: {fault}"
        ) from None
    # A program of the user's own stands for vLLM, which need not be installed here then.
    usual = kinds.PREFERRED if program else kinds.AUTO
    return kinds.choose(usual if name == kinds.AUTO else name), program


def _require_engine(
    spec: RunSpec, parsed: Sequence[CandidateModel | JudgeModel]
) -> None:
    """Refuse the choice of an engine if no model needs one."""
    if any(isinstance(model, Served) for model in parsed):
        return
    for key, value, unset in (
        ("engine.name", spec.engine.name, kinds.AUTO),
        ("engine.command", spec.engine.command, ""),
    ):
        if value != unset:
            raise UserError(
                f"{_said(spec, key, value)}: leave it out: no model of this run is started here"
            )


def _placement(spec: RunSpec) -> PlacementRequest:
    kind, at_once = spec.engine.placement, spec.limits.stop_early
    if kind == "turns" and at_once:
        raise UserError(
            f"{_said(spec, 'engine.placement', kind)}: all answers are there before the first is "
            "judged, so --stop-early would save none; leave one of the two out"
        )
    devices: dict[str, tuple[str, ...]] = {}
    for role in ("candidate", "judge"):
        ids = getattr(spec, role).devices.split(",")
        devices[role] = tuple(filter(None, map(str.strip, ids)))
        if devices[role] and kind in ("together", "turns"):
            raise UserError(
                f"{spec.where(f'{role}.devices')} divides the devices, and engine.placement "
                f'"{kind}" does not; use --set engine.placement=split'
            )
    return PlacementRequest(kind, devices["candidate"], devices["judge"], at_once)


def paces(spec: RunSpec) -> dict[str, RequestPace]:
    """How fast the server of each role may be asked."""
    return {"candidate": spec.candidate.pace, "judge": spec.judge.pace}


def read_replay(
    table: RecordingTable, candidates: Sequence[CandidateModel]
) -> ReplayOptions:
    labels = {label.lower(): meaning.lower() for label, meaning in table.labels.items()}
    require_meanings(labels, "recording.labels")
    for name in table.model_fields_set:
        if getattr(table, name) and not any(
            isinstance(model, Replay) for model in candidates
        ):
            raise UserError(
                f"recording.{name}: leave it out, or name a file with --candidate=replay:FILE: it "
                "only says how recorded answers are read"
            )
    return ReplayOptions(table.columns, labels, table.where, table.partial)


# What a run is measured with.


def _benchmarks(spec: RunSpec, mirror: Path | None) -> dict[str, Benchmark]:
    """All benchmarks as this run evaluates them; its own limit wins over those of their tables."""
    tuned = {}
    for name, benchmark in spec.catalogue().items():
        table = spec.benchmarks.get(name) or settings.BenchmarkTable()
        tuned[name] = replace(
            benchmark.at(mirror),
            limit=spec.limits.prompts or table.limit,
            usual_limit=table.limit,
            max_answer_chars=table.max_answer_chars,
        )
    return tuned


def _baseline(spec: RunSpec, runs: Path) -> Path | None:
    name = spec.baseline.path
    if not name:
        return None
    with _where_written(spec, "baseline.path", "--baseline"):
        return _find_baseline(name, runs)


def _find_baseline(name: str, runs: Path) -> Path:
    path = Path.cwd() / name
    if name != run_folder.LAST and path.exists():
        return path
    try:
        return run_folder.find(name, runs).path
    except DataError as fault:
        why = str(fault).removeprefix(f"{name}: ")
        raise BaselineError(
            f"--baseline {name}: name the folder that `refusal-checks baseline accept RUN DIR` "
            f"wrote, or a run: {why}"
        ) from None


def _trust(spec: RunSpec) -> TrustConfig:
    from refusal_checks.judges.trust.labels import (
        read_labels,
    )  # HTTP: not for collection

    calibrated, sheets = spec.trust.calibration, spec.trust.human_labels
    with _where_written(spec, "trust.human_labels", "--human-labels"):
        for name in sheets:
            _require_file("--human-labels", name, "sample-for-labels RUN")
    if calibrated:
        with _where_written(spec, "trust.calibration", "--calibration"):
            _require_file("--calibration", calibrated, "calibrate --out FILE")
    if spec.limits.stop_early and (calibrated or sheets):
        raise CalibrationError(
            "--calibration, --human-labels: leave out --stop-early: they need whole benchmarks"
        )
    path = Path(calibrated) if calibrated else None
    floors = spec.judge.check
    labels = None
    if sheets:
        labels = read_labels(list(map(Path, sheets)), spec.trust.allow_undrawn_labels)
    return TrustConfig(
        floors=floors if floors and floors.figures else None,
        form=spec.judge.classifier,
        allow_untrusted=spec.trust.allow_untrusted_judge,
        calibration=calibration.read(path) if path else None,
        calibration_file=path,
        labels=labels,
    )


def _require_file(option: str, name: str, remedy: str) -> None:
    if why := why_no_file(Path(name), f"; `refusal-checks {remedy}` writes one"):
        raise CalibrationError(f"{option} {name}: {why}")
