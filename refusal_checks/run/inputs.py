"""A run's spec, and the contents of the files that it names.

The spec's tables are the configuration: code takes them, or the fields that it needs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from refusal_checks.benchmarks import Benchmark
from refusal_checks.benchmarks.pinned import mirror_folder
from refusal_checks.config import variables
from refusal_checks.config.run_spec import RunSpec
from refusal_checks.core import settings
from refusal_checks.core.errors import (
    BaselineError,
    DataError,
    LabelError,
    UserError,
)
from refusal_checks.core.sampling import Sampling
from refusal_checks.gates.decision import Rules
from refusal_checks.gates.gate import Gate
from refusal_checks.io.files import (
    explain_missing_file,
    explain_permission_errors,
    forget_files,
    resolve_path,
)
from refusal_checks.models.model_names import CandidateModel, JudgeModel
from refusal_checks.results import project, run_folder
from refusal_checks.results.redact import Redaction, is_redacted
from refusal_checks.run.named_models import (
    NamedJudge,
    locate_errors,
    read_candidate,
    read_judges,
    require_engine,
    require_recording,
    require_usable_devices,
)

if TYPE_CHECKING:
    from refusal_checks.trust.labels import HumanLabels

COMMANDS = """\
    refusal-checks gate ORG/MODEL --judge openai/gpt-oss-20b --junitxml=report.xml
    refusal-checks gate demo:aligned --judge demo:judge --thresholds smoke   (models to try it with)
in a test file that imports refusal_checks.suite:
    pytest --refusal-candidate=ORG/MODEL --refusal-judge=openai/gpt-oss-20b"""


@dataclass(frozen=True)
class Folders:
    """The folders of a project's store and runs."""

    project: Path  # contains both, unless they were placed elsewhere
    runs: Path


@dataclass(frozen=True)
class Inputs:
    """A spec, and what was read for it; nothing has been asked or started.

    Attributes:
        folders: where store and runs are folders.
        gates: the selected ones; without gates and measurements, the judge alone is checked.
        measured: names of selected benchmarks without a gate.
        sampling: of answers, with the system prompt from its file.
        store: the file of stored answers.
        mirror: folder with public data, of which nothing is then downloaded.
        benchmarks: all that gates may use, as this run evaluates them.
        labels: people's labels of what counted as refused.
        baseline: the folder or file of the earlier run to compare with.
    """

    spec: RunSpec
    folders: Folders
    gates: tuple[Gate, ...]
    measured: tuple[str, ...]
    candidate: CandidateModel
    judges: tuple[NamedJudge, ...]
    sampling: Sampling
    store: Path
    mirror: Path | None
    benchmarks: Mapping[str, Benchmark]
    labels: HumanLabels | None
    baseline: Path | None

    @property
    def models(self) -> tuple[CandidateModel | JudgeModel, ...]:
        return (self.candidate, *(judge.model for judge in self.judges))

    @property
    def benchmark_names(self) -> tuple[str, ...]:
        """The benchmarks that it evaluates."""
        gated = (gate.benchmark for gate in self.gates)
        return tuple(dict.fromkeys((*gated, *self.measured)))

    @cached_property
    def redaction(self) -> Redaction:
        return Redaction(is_redacted(self.spec.reports.redact))

    @property
    def rules(self) -> Rules:
        return Rules(self.spec.settings.confidence, self.spec.reports.failing_prompts)


def choose_folders(
    spec: RunSpec, own: Path | None = None, runs: Path | None = None
) -> Folders:
    """Choose the folders of a run: the spec's, else those given, else the project's."""
    own = own or project.default_folder()
    if spec.reports.runs:
        runs = Path(spec.reports.runs).expanduser()
    # Whole paths: a result is read from its folder wherever the process has gone since.
    return Folders(
        resolve_path(own), resolve_path(runs or project.default_runs_folder())
    )


@explain_permission_errors()
def read_inputs(
    spec: RunSpec, folders: Folders, selected: Collection[str] | None = None
) -> Inputs:
    """Check a spec and read the files it names, except prompts and the baseline's scores.

    Prompts come last, when a session is opened: they may have to be downloaded, and other errors
    should not wait for that.

    Args:
        selected: ids of gates and measurements to evaluate; None for all.

    Raises:
        UserError: a key is missing or wrong, or a file cannot be used.
    """
    forget_files()
    variables.require_known()
    _require_models(spec)
    with locate_errors(spec, "reports.runs", "--runs"):
        run_folder.require_writable(
            folders.runs, project.runs_option(spec.reports.runs)
        )
    store = _store(spec, folders)
    candidate = read_candidate(spec)
    judges = read_judges(spec)
    require_engine(spec, [candidate, *(judge.model for judge in judges)])
    require_usable_devices(spec)
    require_recording(spec.recording, candidate)
    mirror = mirror_folder(spec.data.mirror or None)
    ids = spec.ids if selected is None else selected
    return Inputs(
        spec=spec,
        folders=folders,
        gates=tuple(gate for gate in spec.gates if gate.id in ids),
        measured=tuple(name for key, name in spec.measured.items() if key in ids),
        candidate=candidate,
        judges=judges,
        sampling=spec.sampling.with_prompt_text(),
        store=store,
        mirror=mirror,
        benchmarks=_benchmarks(spec, mirror),
        labels=_labels(spec),
        baseline=_baseline(spec, folders.runs),
    )


def _require_models(spec: RunSpec) -> None:
    missing = []
    for role in ("candidate", "judge"):
        if not getattr(spec, role).model:
            missing.append(f"--{role}")
    if missing:
        if spec.candidate.model:
            read_candidate(spec)  # a misspelt replay:demo would need no judge
        raise UserError(
            f"{' and '.join(missing)} missing: name the model under test and its judge, in "
            f"[candidate] and [judge] of the run file, or for example:\n{COMMANDS}"
        )


def _store(spec: RunSpec, folders: Folders) -> Path:
    """The file of stored answers."""
    store = Path.cwd() / (spec.store.file or folders.project / "store.sqlite")
    if store.is_dir():
        raise UserError(f"{spec.where('store.file')}: name a file: {store} is a folder")
    for key in ("only", "reuse"):
        if spec.store.fresh and getattr(spec.store, key):
            raise UserError(
                f"give {spec.where(f'store.{key}')} or {spec.where('store.fresh')}, not both"
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
            usual_limit=spec.usual_limit(name),
            max_answer_chars=table.max_answer_chars,
        )
    return tuned


def _baseline(spec: RunSpec, runs: Path) -> Path | None:
    name = spec.baseline.path
    if not name:
        return None
    path = Path.cwd() / name
    # A folder that is called like the latest run is ./last.
    if name != run_folder.LAST and path.exists():
        return path
    with locate_errors(spec, "baseline.path", "--baseline"):
        try:
            return run_folder.find_run(name, runs).path
        except DataError as fault:
            why = str(fault).removeprefix(f"{name}: ")
            raise BaselineError(
                f"--baseline {name}: name the folder that `refusal-checks baseline accept RUN DIR` "
                f"wrote, or a run: {why}"
            ) from None


def _labels(spec: RunSpec) -> HumanLabels | None:
    # HTTP, which collection need not import
    from refusal_checks.trust.labels import read_sheet

    sheet = spec.trust.human_labels
    if not sheet:
        return None
    with locate_errors(spec, "trust.human_labels", "--human-labels"):
        remedy = "; `refusal-checks sample-for-labels RUN` writes one"
        why = explain_missing_file(Path(sheet), remedy)
        if why:
            raise LabelError(f"--human-labels {sheet}: {why}")
    return read_sheet(Path(sheet), spec.judge.partial)
