"""Check a spec, read the files it names, and configure the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from refusal_checks.benchmarks import Benchmark
from refusal_checks.benchmarks.pinned import mirror_folder
from refusal_checks.core import settings, variables
from refusal_checks.core.errors import (
    BaselineError,
    DataError,
    LabelError,
    UserError,
)
from refusal_checks.core.files import resolved, why_no_file
from refusal_checks.evaluation.config import (
    BaselineConfig,
    CandidateConfig,
    EngineConfig,
    Folders,
    RunConfig,
    TrustConfig,
)
from refusal_checks.evaluation.model_config import (
    paces,
    placement,
    read_candidate,
    read_judges,
    read_replay,
    require_engine,
    title,
    where_written,
)
from refusal_checks.gates.decision import Rules
from refusal_checks.metrics import METRICS
from refusal_checks.results import project, run_folder
from refusal_checks.results.redact import is_redacted
from refusal_checks.spec import RunSpec

COMMANDS = """\
    refusal-checks gate ORG/MODEL --judge openai/gpt-oss-20b --junitxml=report.xml
    refusal-checks gate demo:aligned --judge demo:judge --thresholds smoke   (models to try it with)
in a test file that imports refusal_checks.suite:
    pytest --refusal-candidate=ORG/MODEL --refusal-judge=openai/gpt-oss-20b"""


def folders(
    spec: RunSpec, own: Path | None = None, runs: Path | None = None
) -> Folders:
    """Choose the folders of a run: the spec's, else those given, else the project's."""
    own = own or project.usual_folder()
    if spec.reports.runs:
        runs = Path(spec.reports.runs).expanduser()
    # Whole paths: a result is read from its folder wherever the process has gone since.
    return Folders(resolved(own), resolved(runs or project.usual_root()))


def configure(spec: RunSpec, kept: Folders) -> RunConfig:
    """Check a spec and read the files it names; return the configuration of the run.

    Raises:
        UserError: a key is missing or wrong, or a file cannot be used.
    """
    variables.require_known()
    _require_models(spec)
    with where_written(spec, "reports.runs", "--runs"):
        run_folder.require_writable(kept.runs, "--runs")
    store = _store(spec, kept)
    candidate = read_candidate(spec)
    judging = read_judges(spec)
    require_engine(spec, [candidate, *judging.models])
    mirror = mirror_folder(spec.data.mirror or None)
    trust = _trust(spec)
    answering = CandidateConfig(
        candidate,
        spec.sampling.drawn,
        read_replay(spec.recording, candidate),
        title(spec),
        judge_reasoning=spec.candidate.judge_reasoning,
        filtered=spec.candidate.filtered,
        weighs=any(METRICS[gate.metric].weighs for gate in spec.gates),
    )
    return RunConfig(
        answering=answering,
        judging=judging,
        store=store,
        fresh=spec.store.fresh,
        reuse=spec.store.reuse,
        stored_only=spec.store.only,
        retry_unfinished=spec.store.retry_unfinished,
        benchmarks=_benchmarks(spec, mirror),
        evaluated=spec.evaluated,
        mirror=mirror,
        multiple_choice=spec.multiple_choice,
        limits=spec.limits,
        engine=EngineConfig(placement(spec), spec.engine.start_timeout, paces(spec)),
        trust=trust,
        rules=Rules(
            spec.settings.confidence,
            spec.reports.offenders,
        ),
        baseline=BaselineConfig(
            _baseline(spec, kept.runs),
            spec.baseline.allow_incomparable,
            spec.settings.require_baseline,
        ),
        files=spec.files,
        usual_seed=spec.usual_seed,
        redact=is_redacted(spec.reports.redact),
        written=spec.recorded(),
        accepted=spec.accept.granted,
    )


def _require_models(spec: RunSpec) -> None:
    missing = []
    for role in ("candidate", "judge"):
        if not getattr(spec, role).model:
            missing.append(f"--{role}")
    if missing:
        raise UserError(
            f"{' and '.join(missing)} missing: name the model under test and its judge, in "
            f"[candidate] and [judge] of the run file, or for example:\n{COMMANDS}"
        )


def _store(spec: RunSpec, kept: Folders) -> Path:
    """The file of stored answers."""
    store = Path.cwd() / (spec.store.file or kept.own / "store.sqlite")
    if store.is_dir():
        raise UserError(f"{spec.where('store.file')}: name a file: {store} is a folder")
    if spec.store.only and spec.store.fresh:
        raise UserError(
            f"give {spec.where('store.only')} or {spec.where('store.fresh')}, not both"
        )
    if spec.store.reuse and spec.store.fresh:
        raise UserError(
            f"give {spec.where('store.reuse')} or {spec.where('store.fresh')}, not both"
        )
    return store


def _benchmarks(spec: RunSpec, mirror: Path | None) -> dict[str, Benchmark]:
    """All benchmarks as this run evaluates them; its own limit replaces those of their tables."""
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
    with where_written(spec, "baseline.path", "--baseline"):
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
    # HTTP, which collection need not import
    from refusal_checks.judges.trust.labels import read_sheet

    sheet = spec.trust.human_labels
    if sheet:
        with where_written(spec, "trust.human_labels", "--human-labels"):
            _require_file("--human-labels", sheet, "sample-for-labels RUN")
    floors = spec.judge.check
    labels = None
    if sheet:
        labels = read_sheet(Path(sheet), spec.judge.partial)
    return TrustConfig(
        floors=floors if floors and floors.figures else None,
        allow_untrusted=spec.trust.allow_untrusted_judge,
        labels=labels,
    )


def _require_file(option: str, name: str, remedy: str) -> None:
    why = why_no_file(Path(name), f"; `refusal-checks {remedy}` writes one")
    if why:
        raise LabelError(f"{option} {name}: {why}")
