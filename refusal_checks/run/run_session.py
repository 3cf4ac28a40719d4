"""Open and check everything a run needs before an engine starts, and close it after the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from refusal_checks.core.errors import UserError
from refusal_checks.core.judgements import Invalid, Reason
from refusal_checks.core.records import Record
from refusal_checks.engines.placement import PlacementRequest
from refusal_checks.engines.pool import Engines
from refusal_checks.engines.servers import Servers
from refusal_checks.gates.comparison import Earlier
from refusal_checks.io.files import explain_permission_errors, make_private_folder
from refusal_checks.io.store import Store
from refusal_checks.io.store_lock import StoreLock
from refusal_checks.models.model_names import model_remark
from refusal_checks.results.manifest import Manifest
from refusal_checks.run import connections
from refusal_checks.run.baseline_scores import earlier_results, read_baseline
from refusal_checks.run.inputs import Folders, Inputs
from refusal_checks.run.plan import (
    SelectedBenchmark,
    Task,
    prompts_at_once,
    selected_benchmarks,
)
from refusal_checks.run.prompt_loading import LoadedPrompts, load_prompts
from refusal_checks.run.provenance import make_manifest
from refusal_checks.run.reusable_answers import choose_generations
from refusal_checks.run.stages.check import (
    JudgeChecks,
    find_untested,
)
from refusal_checks.trust.labels import HumanLabels, answer_key

Say = Callable[[str], None]


@dataclass(frozen=True)
class RunSession:
    """What was opened for a run: its folder, store and servers, with its prompts and judges.

    Attributes:
        folder: for logs, records and the summary.
        manifest: what was read and opened, without what is known only after the run.
        notes: lines on how verdicts come about.
        untested: what to do about judges that nothing tests, by benchmark.
        task: all prompts, the candidate, the judges and the store.
        servers: none of their engines has started.
        unverified: names of attached models that may have other weights than when they were asked.
    """

    inputs: Inputs
    folder: Path
    manifest: Manifest
    notes: Sequence[str]
    untested: Mapping[str, str]
    task: Task
    servers: Servers
    benchmarks: Mapping[str, SelectedBenchmark]
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
    is_cancelled: Callable[[], bool],
) -> Iterator[RunSession]:
    """Open and check everything a run needs, without starting engines; close it after the block.

    Raises:
        UserError: data or a server cannot be used, or settings do not go together.
        StoreError: the store cannot be opened, or another run keeps it too long.
        KeyboardInterrupt: ``is_cancelled`` while it waits for another run.
    """
    folder = _new_folder(inputs.folders, run_id)
    with ExitStack() as opened:
        # Before anything is asked: two runs at one store would ask for the same answers twice.
        lock = StoreLock(inputs.store)
        opened.callback(lock.release)
        lock.take(folder, say, is_cancelled)
        with explain_permission_errors():
            session = _open(inputs, folder, say, opened)
        # Runs that are kept elsewhere are not covered by the project folder's own file.
        if inputs.folders.project not in folder.parents:
            keep_private(folder)
        yield session


def _new_folder(folders: Folders, run_id: str) -> Path:
    """The folder of a run, which does not exist yet."""
    keep_private(folders.project)
    folder = folders.runs / run_id
    if folder.exists() or Path(run_id).name != run_id:
        raise UserError(f"run_id {run_id}: choose a name that no run has: {folder}")
    return folder


def keep_private(folder: Path) -> None:
    """Keep git from committing the store and the runs: their texts may be harmful."""
    with suppress(OSError):  # the run itself reports that it cannot write
        make_private_folder(folder)
        with (folder / ".gitignore").open("x") as file:
            file.write("*\n")


def _open(inputs: Inputs, folder: Path, say: Say, opened: ExitStack) -> RunSession:
    spec = inputs.spec
    inputs.redaction.require_silent(inputs.models)
    remark = model_remark(inputs.candidate)
    notes = [remark] if remark else []
    # A broken baseline is said before weights are converted and servers asked, which takes minutes.
    baseline = read_baseline(inputs)
    if spec.store.only:  # neither engines nor attached servers are asked
        servers = Servers()
    else:
        connections.make_weights(inputs.models, say)
        servers = make_engines(inputs, folder, say)
    # The store closes first, the lock last: engines may take seconds to end, and the next run must
    # not start its own on the same devices before.
    opened.callback(servers.close)
    store = opened.enter_context(Store(inputs.store, spec.store.retry_unfinished))
    task, loaded = _connect(inputs, servers, store, say, notes.append)
    manifest = make_manifest(
        inputs, loaded, task.judges, servers=servers.usage_report().get("servers", {})
    )
    # Before anything is asked: else a baseline that does not compare is found out after hours.
    earlier = earlier_results(inputs, baseline, manifest, task)
    # Last of all: it may set aside what finished runs asked for.
    unverified = choose_generations(
        task, spec.store, are_labelled=inputs.labels is not None
    )
    if inputs.labels:  # only now is it clear which stored answers are this run's
        _require_own_labels(inputs.labels, task, folder.name)
    return RunSession(
        inputs=inputs,
        folder=folder,
        manifest=manifest,
        notes=notes,
        untested=find_untested(
            inputs.gates,
            inputs.benchmarks,
            task.judges,
            spec.judge.minimums,
            spec.recording.labelled_by,
        ),
        task=task,
        servers=servers,
        benchmarks=selected_benchmarks(
            inputs.gates, inputs.benchmarks, task.plan, task.judges
        ),
        earlier=earlier,
        checks=JudgeChecks(
            task.judges,
            spec.judge.minimums,
            store,
            level=inputs.rules.level,
            quotes=not inputs.redaction.is_on,
            is_overruled=spec.trust.allow_untrusted_judge,
        ),
        unverified=unverified,
    )


def make_engines(inputs: Inputs, folder: Path, say: Say) -> Engines:
    """The engines of a run's models, not started yet; their logs go to the folder."""
    spec = inputs.spec
    return Engines(
        inputs.candidate,
        [judge.model for judge in inputs.judges],
        folder,
        spec.limits,
        PlacementRequest(
            spec.engine.placement, spec.candidate.device_ids, spec.judge.device_ids
        ),
        say,
        spec.engine.start_timeout,
    )


def _connect(
    inputs: Inputs, servers: Servers, store: Store, say: Say, note: Say
) -> tuple[Task, LoadedPrompts]:
    """Connect to the models, then load the prompts: what else is wrong does not wait for data.

    Args:
        note: receives lines on how verdicts come about.
    """
    if servers.are_live:
        connections.require_loadable(inputs, say)
    candidate = connections.connect_candidate(inputs, servers)
    judges = connections.build_judges(inputs, servers, note)
    loaded = load_prompts(inputs, note)
    if loaded.recording:
        candidate = connections.use_recording(
            inputs, loaded.recording, loaded.plan, judges, say, note
        )
    assert candidate
    withheld = connections.withheld_verdicts(inputs, loaded.plan)
    return Task(loaded.plan, candidate, judges, store, withheld), loaded


def _require_own_labels(labels: HumanLabels, task: Task, run: str) -> None:
    """Raise LabelError if a row is of a benchmark of this run, and no stored answer of it.

    People label answers, so what they say of other answers decides nothing about these.
    """
    keys: dict[str, set[str]] = {}
    for name, prompts in task.plan.items():
        stored = task.candidate.stored_answers(prompts, task.store)
        own = keys.setdefault(name, set())
        for prompt in prompts:
            for sample, key in enumerate(task.candidate.keys(prompt)):
                if key in stored:
                    unjudged = Invalid(Reason.NO_LABEL)
                    record = Record(prompt, sample, stored[key], unjudged)
                    own.add(answer_key(name, record))
    labels.require_answers(keys, f"run {run} of {task.candidate.name}")
