"""Read, check and open everything that a run needs before an engine starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from refusal_checks.core.store import Store
from refusal_checks.engines.pool import Engines, PoolSettings
from refusal_checks.engines.servers import Servers
from refusal_checks.evaluation import generations
from refusal_checks.evaluation.assembly import Assembly, assemble, convert
from refusal_checks.evaluation.config import RunConfig
from refusal_checks.evaluation.earlier_runs import (
    BaselineReader,
    require_compared,
    require_possible_margins,
)
from refusal_checks.evaluation.evidence import require_own_labels
from refusal_checks.evaluation.gated import GatedBenchmark, gated_benchmarks
from refusal_checks.evaluation.judge_checks import (
    JudgeChecks,
    untested,
)
from refusal_checks.evaluation.planning import (
    Task,
    prompts_at_once,
)
from refusal_checks.evaluation.provenance import manifest
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.decision import Rules
from refusal_checks.gates.gate import Gate, measured_id
from refusal_checks.gates.score_files import Scores
from refusal_checks.judges import kind_of
from refusal_checks.models.names import remark_on
from refusal_checks.results.redact import Redaction
from refusal_checks.results.run_folder import earlier_scores
from refusal_checks.results.summary import RunSummary

Say = Callable[[str], None]


@dataclass(frozen=True)
class PreparedRun:
    """A run that is ready to start, with everything read and opened for it.

    Without gates, it checks the judge alone.

    Attributes:
        folder: for logs, records and the summary.
        summary: filled during the run.
        work: all prompts, the candidate, the judges and the store.
        rules: rules of gates, without human labels.
        unverified: names of attached models that may have other weights than when they were asked.
    """

    config: RunConfig
    gates: Sequence[Gate]
    folder: Path
    summary: RunSummary
    work: Task
    servers: Servers
    benchmarks: Mapping[str, GatedBenchmark]
    rules: Rules
    earlier: Mapping[str, Earlier]
    checks: JudgeChecks
    unverified: frozenset[str]

    @property
    def redaction(self) -> Redaction:
        return Redaction(self.config.redact)

    @property
    def is_complete(self) -> bool:
        summary = self.summary
        done = {*summary.verdicts, *summary.errors}
        done.update(map(measured_id, summary.benchmarks))
        checked = self.checks.why_idle or self.checks.faults or summary.judge
        is_decided = all(
            done.issuperset(benchmark.ids) for benchmark in self.benchmarks.values()
        )
        return is_decided and bool(checked)

    def in_flight(self) -> int:
        """Number of prompts to answer or judge concurrently."""
        samples = self.config.answering.sampling.samples
        limits, models = self.config.limits, self.config.models
        return prompts_at_once(limits, models, samples)


def prepare(
    config: RunConfig,
    gates: Sequence[Gate],
    folder: Path,
    say: Say,
    servers: Servers | None = None,
) -> PreparedRun:
    """Read and check all that a run needs; starts nothing.

    Args:
        servers: replace engines.

    Raises:
        UserError: something in the configuration or in a file is wrong.
    """
    summary = _first_notes(config)
    baseline = check_baseline(config, gates)
    if servers is None:
        convert(config.models, say)
        servers = Engines(pool_settings(config), folder)
    store = Store(config.store, config.retry_unfinished)
    try:
        assembled = assemble(config, gates, servers, say, summary.note)
        _note_untested(summary, config, gates, assembled)
        summary.manifest = manifest(
            config,
            assembled.loaded,
            assembled.judges,
            servers=servers.account().get("servers", {}),
        )
        work = _task(config, assembled, store)
        earlier = _earlier(config, gates, baseline, summary, work)
        unverified = _begin(config, work, folder.name)
    except BaseException:
        store.close()
        raise

    judges = work.judges
    return PreparedRun(
        config=config,
        gates=gates,
        folder=folder,
        summary=summary,
        work=work,
        servers=servers,
        benchmarks=gated_benchmarks(gates, config.benchmarks, work.plan, judges),
        rules=config.rules,
        earlier=earlier,
        checks=JudgeChecks(judges, config.trust.floors, store),
        unverified=unverified,
    )


def check_baseline(config: RunConfig, gates: Sequence[Gate]) -> Mapping[str, Scores]:
    """Read the baseline; BaselineError if it is broken, or lacks a benchmark that needs it."""
    path = config.baseline.path
    baseline = earlier_scores(path) if path else {}
    if config.baseline.is_required:
        require_compared(gates, baseline, path)
    return baseline


def _first_notes(config: RunConfig) -> RunSummary:
    """Begin a summary with what is known before anything is read.

    Raises:
        ModelError: texts are private, and an engine would write them into its log.
    """
    summary = RunSummary()
    Redaction(config.redact).require_silent(config.models)
    remark = remark_on(config.answering.model)
    if remark:
        summary.note(remark)
    return summary


def pool_settings(config: RunConfig) -> PoolSettings:
    return PoolSettings(
        candidate=config.answering.model,
        judges=config.judging.models,
        limits=config.limits,
        sampling=config.answering.sampling,
        judge_sampling=config.judging.sampling,
        placement=config.engine.placement,
        start_timeout=config.engine.start_timeout,
        paces=config.engine.paces,
    )


def _note_untested(
    summary: RunSummary, config: RunConfig, gates: Sequence[Gate], assembled: Assembly
) -> None:
    """Note what no check of the judges tests."""
    judges, benchmarks = assembled.judges, config.benchmarks
    labelled_by = config.answering.replay.labelled_by
    found = untested(gates, benchmarks, judges, config.trust, labelled_by)
    for name, why in found.items():
        if kind_of(benchmarks[name]).verdicts.scale:
            summary.untested_scales[name] = why
        else:
            summary.untested = why


def _task(config: RunConfig, assembled: Assembly, store: Store) -> Task:
    return Task(
        assembled.loaded.plan,
        assembled.candidate,
        assembled.judges,
        store,
        withheld=assembled.withheld,
    )


def _begin(config: RunConfig, work: Task, run: str) -> frozenset[str]:
    """Choose the stored answers that the run uses; human labels must be of some of them.

    Nothing may go wrong afterwards: it may set aside what finished runs asked for.

    Returns:
        See ``generations.begin``.
    """
    labels = config.trust.labels
    unverified = generations.begin(
        work,
        fresh=config.fresh,
        reuse=config.reuse,
        stored_only=config.stored_only,
        are_labelled=labels is not None,
    )
    if labels:
        require_own_labels(labels, work, f"run {run} of {work.candidate.name}")
    return unverified


def _earlier(
    config: RunConfig,
    gates: Sequence[Gate],
    baseline: Mapping[str, Scores],
    summary: RunSummary,
    work: Task,
) -> Mapping[str, Earlier]:
    """Compare conditions with the baseline's, and check that it can decide the gates' margins."""
    plan = work.plan
    reader = BaselineReader(
        config.baseline, config.answering.replay, summary.manifest, work.store, plan
    )
    earlier = reader.earlier(baseline)
    level = config.rules.level
    require_possible_margins(gates, earlier, config.benchmarks, plan, level)
    return earlier
