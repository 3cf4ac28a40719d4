"""Open and check everything that a run needs before an engine starts, and end it after the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from refusal_checks.core.errors import UserError
from refusal_checks.core.files import permitted
from refusal_checks.core.store import Store
from refusal_checks.core.store_lock import StoreLock
from refusal_checks.engines.placement import PlacementRequest
from refusal_checks.engines.pool import Engines
from refusal_checks.engines.servers import Servers
from refusal_checks.engines.stored_only import StoredModels
from refusal_checks.evaluation import assembly, generations
from refusal_checks.evaluation.earlier_runs import (
    BaselineReader,
    require_compared,
    require_possible_margins,
)
from refusal_checks.evaluation.evidence import require_own_labels
from refusal_checks.evaluation.gated import GatedBenchmark, gated_benchmarks
from refusal_checks.evaluation.inputs import Folders, Inputs
from refusal_checks.evaluation.judge_checks import (
    JudgeChecks,
    untested,
)
from refusal_checks.evaluation.loading import Loaded, load_prompts
from refusal_checks.evaluation.planning import (
    Judges,
    Task,
    prompts_at_once,
)
from refusal_checks.evaluation.provenance import manifest
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.score_files import Scores
from refusal_checks.judges import kind_of
from refusal_checks.models.names import remark_on
from refusal_checks.results.run_folder import earlier_scores
from refusal_checks.results.summary import RunSummary

Say = Callable[[str], None]


@dataclass(frozen=True)
class RunSession:
    """What was opened for a run: its folder, store and servers, with its prompts and judges.

    Attributes:
        folder: for logs, records and the summary.
        summary: begun with what is known before the first question.
        work: all prompts, the candidate, the judges and the store.
        servers: none of their engines has started.
        unverified: names of attached models that may have other weights than when they were asked.
    """

    inputs: Inputs
    folder: Path
    summary: RunSummary
    work: Task
    servers: Servers
    benchmarks: Mapping[str, GatedBenchmark]
    earlier: Mapping[str, Earlier]
    checks: JudgeChecks
    unverified: frozenset[str]

    def in_flight(self) -> int:
        """Number of prompts to answer or judge concurrently."""
        inputs = self.inputs
        samples = inputs.sampling.samples
        return prompts_at_once(inputs.spec.limits, inputs.models, samples)


@contextmanager
def open_session(
    inputs: Inputs,
    run_id: str,
    say: Say,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[RunSession]:
    """Open and check all that a run needs; starts no engine. What is opened ends with the block.

    Raises:
        UserError: data or a server cannot be used, or settings do not go together.
        StoreError: the store cannot be opened, or another run keeps it too long.
        KeyboardInterrupt: ``is_cancelled`` while it waits for another run.
    """
    folder = _new_folder(inputs.kept, run_id)
    with ExitStack() as opened:
        lock = StoreLock(inputs.store)
        opened.callback(lock.release)
        lock.take(folder, say, is_cancelled)
        with permitted():
            session = _opened(inputs, folder, say, opened)
        if inputs.kept.own not in folder.parents:
            keep_private(folder)
        yield session


def _new_folder(kept: Folders, run_id: str) -> Path:
    """The folder of a run, which does not exist yet."""
    keep_private(kept.own)
    folder = kept.runs / run_id
    if folder.exists() or Path(run_id).name != run_id:
        raise UserError(f"run_id {run_id}: choose a name that no run has: {folder}")
    return folder


def keep_private(folder: Path) -> None:
    """Keep git from committing the store and the runs: their texts may be harmful."""
    with suppress(OSError):  # the run itself reports that it cannot write
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".gitignore").open("x") as file:
            file.write("*\n")


def _opened(inputs: Inputs, folder: Path, say: Say, opened: ExitStack) -> RunSession:
    summary = RunSummary()
    inputs.redaction.require_silent(inputs.models)
    remark = remark_on(inputs.candidate)
    if remark:
        summary.note(remark)
    baseline = read_baseline(inputs)
    if inputs.spec.store.only:
        servers: Servers = StoredModels()
    else:
        assembly.convert(inputs.models, say)
        servers = engines(inputs, folder)
    opened.callback(servers.close)
    store = opened.enter_context(
        Store(inputs.store, inputs.spec.store.retry_unfinished)
    )
    work, loaded = _connected(inputs, servers, store, say, summary.note)
    _note_untested(summary, inputs, work.judges)
    summary.manifest = manifest(
        inputs, loaded, work.judges, servers=servers.account().get("servers", {})
    )
    earlier = _earlier(inputs, baseline, summary, work)
    unverified = _begin(inputs, work, folder.name)
    return RunSession(
        inputs=inputs,
        folder=folder,
        summary=summary,
        work=work,
        servers=servers,
        benchmarks=gated_benchmarks(
            inputs.gates, inputs.benchmarks, work.plan, work.judges
        ),
        earlier=earlier,
        checks=JudgeChecks(
            work.judges,
            inputs.spec.judge.floors,
            store,
            level=inputs.rules.level,
            quotes=not inputs.redaction.is_on,
        ),
        unverified=unverified,
    )


def engines(inputs: Inputs, folder: Path) -> Engines:
    """The engines of a run's models, none of them started; their logs go into the folder."""
    spec = inputs.spec
    return Engines(
        inputs.candidate,
        [judge.model for judge in inputs.judges],
        folder,
        spec.limits,
        PlacementRequest(
            spec.engine.placement, spec.candidate.device_ids, spec.judge.device_ids
        ),
        spec.engine.start_timeout,
    )


def read_baseline(inputs: Inputs) -> Mapping[str, Scores]:
    """Read the baseline; BaselineError if it is broken, or lacks a benchmark that needs it."""
    path = inputs.baseline
    baseline = earlier_scores(path) if path else {}
    if inputs.spec.settings.require_baseline:
        require_compared(inputs.gates, baseline, path)
    return baseline


def _connected(
    inputs: Inputs, servers: Servers, store: Store, say: Say, note: Say
) -> tuple[Task, Loaded]:
    """Connect to the models, then load the prompts: what else is wrong does not wait for data.

    Args:
        note: receives lines on how verdicts come about.
    """
    if servers.are_live:
        assembly.require_loadable(inputs, say)
    candidate = assembly.connect_candidate(inputs, servers)
    judges = assembly.build_judges(inputs, servers, note)
    loaded = load_prompts(inputs, note)
    if loaded.recording:
        candidate = assembly.recorded_candidate(
            inputs, loaded.recording, loaded.plan, judges, say, note
        )
    assert candidate
    withheld = assembly.withheld(inputs, loaded.plan)
    return Task(loaded.plan, candidate, judges, store, withheld), loaded


def _note_untested(summary: RunSummary, inputs: Inputs, judges: Judges) -> None:
    """Note what no check of the judges tests."""
    benchmarks, spec = inputs.benchmarks, inputs.spec
    found = untested(
        inputs.gates, benchmarks, judges, spec.judge.floors, spec.recording.labelled_by
    )
    for name, why in found.items():
        if kind_of(benchmarks[name]).verdicts.scale:
            summary.untested_scales[name] = why
        else:
            summary.untested = why


def _begin(inputs: Inputs, work: Task, run: str) -> frozenset[str]:
    """Choose the stored answers that the run uses; human labels must be of some of them.

    Nothing may go wrong afterwards: it may set aside what finished runs asked for.

    Returns:
        See ``generations.begin``.
    """
    labels = inputs.labels
    unverified = generations.begin(
        work, inputs.spec.store, are_labelled=labels is not None
    )
    if labels:
        require_own_labels(labels, work, f"run {run} of {work.candidate.name}")
    return unverified


def _earlier(
    inputs: Inputs,
    baseline: Mapping[str, Scores],
    summary: RunSummary,
    work: Task,
) -> Mapping[str, Earlier]:
    """Compare conditions with the baseline's, and check that it can decide the gates' margins."""
    spec, plan = inputs.spec, work.plan
    reader = BaselineReader(
        inputs.baseline,
        spec.baseline.allow_incomparable,
        spec.recording,
        summary.manifest,
        work.store,
        plan,
    )
    earlier = reader.earlier(baseline)
    level = spec.settings.confidence
    require_possible_margins(inputs.gates, earlier, inputs.benchmarks, plan, level)
    return earlier
