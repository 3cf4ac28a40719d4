"""Everything that a run reads, checks and opens before an engine starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from refusal_checks.core.errors import BaselineError, DataError, ThresholdError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.store import Store
from refusal_checks.core.text import count
from refusal_checks.core.verdicts import Rated
from refusal_checks.engines.pool import Engines, PoolSettings, Shared
from refusal_checks.engines.servers import Servers
from refusal_checks.evaluation.assembly import Parts, assemble, convert
from refusal_checks.evaluation.config import BaselineConfig, RunConfig
from refusal_checks.evaluation.loading import prompts_of
from refusal_checks.evaluation.planning import (
    Pending,
    Plan,
    Task,
    pending,
    prompts_at_once,
)
from refusal_checks.evaluation.provenance import manifest
from refusal_checks.evaluation.trust import (
    Canary,
    Gradient,
    known_evidence,
    require_own_labels,
    untested,
    untested_scales,
)
from refusal_checks.evaluation.verification import (
    Verified,
    adopt_all,
    renew,
    unverified,
    verify,
)
from refusal_checks.gates import score_files
from refusal_checks.gates.comparison import Earlier, Texts
from refusal_checks.gates.early_stopping import EarlyStopping, shuffled
from refusal_checks.gates.estimates import Rules
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.score_files import Scores
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics import paired
from refusal_checks.models import demo
from refusal_checks.models.identity import describe
from refusal_checks.models.names import Replay
from refusal_checks.models.recordings import replay
from refusal_checks.models.recordings.columns import ReplayOptions
from refusal_checks.results.manifest import Manifest, conditions
from refusal_checks.results.redact import Redaction
from refusal_checks.results.summary import RunSummary


def find_earlier(
    wanted: BaselineConfig,
    reading: ReplayOptions,
    manifest: Manifest,
    store: Store,
    plan: Plan,
) -> dict[str, Earlier]:
    """The earlier run of each benchmark in the baseline; ``reading`` is of recorded answers."""
    if wanted.path is None:
        return {}

    def compared(known: Mapping[str, Scores]) -> dict[str, Earlier]:
        found: dict[str, Earlier] = {}
        for name in (name for name in manifest.data if name in known):
            scores = known[name]
            found[name] = Earlier(
                scores,
                tuple(
                    score_files.differences(
                        scores.conditions, conditions(manifest, name)
                    )
                ),
                _texts(scores, reading, store, plan.get(name, ())),
                same_candidate=(scores.title or scores.candidate)
                in (manifest.title, manifest.candidate),
            )
        benchmarks: dict[str, list[str]] = {}
        for name, run in found.items():
            for each in run.differences:
                benchmarks.setdefault(each, []).append(name)
        named = [f"{', '.join(names)}: {each}" for each, names in benchmarks.items()]
        if named and not wanted.allow_incomparable:
            raise BaselineError(
                f"--baseline {wanted.path}: not comparable with this run:\n  "
                + "\n  ".join(named)
                + "\nrun both under the same conditions, accept a new baseline, or compare anyway "
                "with --set baseline.allow_incomparable=true"
            )
        return found

    found = compared(score_files.load(wanted.path))
    folder = wanted.path / score_files.ANCHOR
    anchors = compared(score_files.load(folder)) if folder.is_dir() else {}
    return {
        name: replace(each, anchor=anchors.get(name)) for name, each in found.items()
    }


def _require_compared(
    gates: Sequence[Gate], earlier: Mapping[str, Earlier], path: Path | None
) -> None:
    """Refuse a run in which a margin has nothing to be compared with."""
    alone = [
        gate
        for gate in gates
        if gate.has_margins and not gate.is_total and gate.benchmark not in earlier
    ]
    if not alone:
        return
    names = ", ".join(dict.fromkeys(gate.benchmark for gate in alone))
    what = (
        f"--baseline {path}: accept a run with {names}"
        if path
        else "name one with --baseline"
    )
    raise BaselineError(
        f"{what}: [settings] require_baseline asks for a baseline, and max_drop and max_rise of "
        f"{count(len(alone), 'gate')} have none, {alone[0].id} first"
    )


def _require_possible(
    gate: Gate, written: Gate, prompts: Sequence[Prompt], level: float
) -> None:
    """Refuse margins so narrow that the same model again would fail them.

    The gate is the one that was written, or that on one group where it is on every group.
    """
    metric, prompts = METRICS[gate.metric], list(filter(gate.looks_at, prompts))
    decides = metric.counts is not None and gate.on_inconclusive not in ("warn", "pass")
    if not decides or metric.units(prompts) is not None:
        return
    n = len({prompt.id for prompt in prompts})
    margin = min(each for each in (gate.max_drop, gate.max_rise) if each is not None)
    if (needed := paired.prompts_for_margin(margin, level)) > n:
        more = f", or ask {needed} prompts" if needed < paired.MOST else ""
        where = ""
        if written.is_on_every_group:
            more += ', or write on_inconclusive = "warn" beside it'
            where = f" of {gate.group_kind} {gate.group}"
        raise ThresholdError(
            f"{gate.source}: {written.id}: allow more than {margin:.3g}{more}: with "
            f"{count(n, 'prompt')}{where} the same model again would fail, because even without "
            "a single change they do not show that there is none"
        )


def _texts(
    scores: Scores, reading: ReplayOptions, store: Store, prompts: Sequence[Prompt]
) -> Texts:
    """Looks up earlier answers in their recording, if it is still the same, or in the store."""
    recording = None
    kind, _, name = scores.candidate.partition(":")
    path = Path(name).expanduser()
    is_there = kind == "replay" and path.is_file()
    if (
        is_there
        and describe(Replay(scores.candidate, path))["version"] == scores.version
    ):
        with suppress(DataError):
            recording = replay.read(path, reading, prompts)

    def look_up(prompt: Prompt, keys: Sequence[str]) -> dict[str, str]:
        if recording is None:
            return {key: found.text for key, found in store.completions(keys).items()}
        answers = enumerate(recording.answers(prompt))
        return {f"{prompt.id}-{sample}": answer.text for sample, answer in answers}

    return look_up


@dataclass(frozen=True)
class PreparedRun:
    """A run that can start: what it was asked, and what was read and opened for it.

    Without gates, it checks the judge alone. The folder takes logs, records and the summary, which
    is filled while the run goes on.
    """

    config: RunConfig
    gates: Sequence[Gate]
    folder: Path
    summary: RunSummary
    parts: Parts
    rules: Rules
    store: Store
    earlier: Mapping[str, Earlier]
    early: EarlyStopping | None
    canary: Canary
    verified: Verified  # what is stored of the run's servers
    gradient: Gradient

    @property
    def redaction(self) -> Redaction:
        return Redaction(self.config.redact)

    @property
    def is_complete(self) -> bool:
        decided = len(self.summary.verdicts) + len(self.summary.errors)
        checked = self.canary.why_idle or self.canary.faults or self.summary.judge
        return decided == len(self.gates) and bool(checked)

    def in_flight(self, copies: int = 1) -> int:
        samples = self.config.answering.sampling.samples
        return prompts_at_once(
            self.config.limits, self.config.models, samples, copies=copies
        )

    def pending(self, plan: Plan) -> Pending:
        """What a plan leaves to do."""
        return pending(self.task(plan))

    def pending_checks(self) -> list[Pending]:
        """What the checks of the judges leave to do."""
        return [*self.canary.pending(), *self.gradient.pending()]

    def task(self, plan: Plan) -> Task:
        candidate, labels = self.parts.candidate, self.config.trust.labels
        # People may say of two answers what no verdict says.
        return Task(
            plan, candidate, self.parts.judges, self.store, weighs_all=bool(labels)
        )


def prepare(
    config: RunConfig,
    gates: Sequence[Gate],
    folder: Path,
    say: Callable[[str], None],
    verified: dict[str, str],
    servers: Servers | None = None,
    shared: Shared | None = None,
) -> PreparedRun:
    """Read and check all that a run needs; starts nothing. ``servers`` replace engines.

    ``verified`` takes the models whose stored answers the session has verified or set aside, see
    ``verify``: once is enough for all of its runs.
    """
    answering, judging, known = config.answering, config.judging, config.benchmarks
    models = config.models
    summary, redaction = RunSummary(), Redaction(config.redact)
    redaction.require_silent(models)
    for line in config.notes:
        summary.note(line)
    if any(model.name.startswith("demo:") for model in models):
        summary.note(demo.catalogue().note)
    if servers is None:
        convert(models, say)
        settings = PoolSettings(
            candidate=answering.model,
            judges=judging.models,
            limits=config.limits,
            sampling=answering.sampling,
            judge_sampling=judging.sampling,
            placement=config.engine.placement,
            start_timeout=config.engine.start_timeout,
            paces=config.engine.paces,
        )
        servers = Engines(settings, folder, shared)
    parts = assemble(config, gates, servers, say, summary.note)
    summary.untested = untested(gates, known, parts.judges, config.trust)
    summary.untested_scales = untested_scales(gates, known, parts.judges)
    evidence = known_evidence(config, gates, parts)
    summary.manifest = manifest(config, parts, config.store)
    store = Store(config.store, config.retry_unfinished)
    try:
        task = Task(parts.plan, parts.candidate, parts.judges, store)
        adopt_all(task)
        if config.fresh:
            renew(task, verified)
        if labels := config.trust.labels:
            require_own_labels(labels, task, folder.name)
        earlier = find_earlier(
            config.baseline, answering.replay, summary.manifest, store, parts.plan
        )
        compared = [
            gate for gate in gates if gate.has_margins and gate.benchmark in earlier
        ]
        for gate in compared:
            if earlier[gate.benchmark].anchor or not gate.is_total:
                prompts = prompts_of(known[gate.benchmark], parts.plan)
                for each in gate.of_each_group(prompts):
                    _require_possible(each, gate, prompts, config.rules.level)
        if config.baseline.is_required:
            _require_compared(gates, earlier, config.baseline.path)
        known_again = verify(task, servers.clients, verified, say)
        for line in known_again.notes:
            say(line)
            summary.note(line)
        summary.unverified = unverified(models, servers)
    except BaseException:
        store.close()
        raise
    early = None
    if config.limits.stop_early:
        seed = answering.sampling.seed
        order = {
            name: shuffled(prompts, name, seed) for name, prompts in parts.plan.items()
        }
        parts = parts._replace(plan=order)
        in_full = [name for gate in gates for name in known[gate.benchmark].under]
        watched = [gate for gate in gates if gate.benchmark in order]
        early = EarlyStopping(watched, order, config.rules.level, in_full)
    return PreparedRun(
        config=config,
        gates=gates,
        folder=folder,
        summary=summary,
        parts=parts,
        rules=replace(config.rules, evidence=evidence),
        store=store,
        earlier=earlier,
        early=early,
        verified=known_again,
        canary=Canary(
            parts.judges,
            config.trust.floors,
            store,
            set(summary.untested_scales.values()) - {Rated.scale},
        ),
        gradient=Gradient(parts.judges, store),
    )
