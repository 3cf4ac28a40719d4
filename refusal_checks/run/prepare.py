"""Everything that a run reads, checks and opens before an engine starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from refusal_checks.benchmarks import Benchmark
from refusal_checks.core.errors import BaselineError, DataError, ThresholdError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.store import Store
from refusal_checks.core.text import count
from refusal_checks.engines.pool import Engines, Shared
from refusal_checks.engines.servers import Servers
from refusal_checks.gates import baseline
from refusal_checks.gates.baseline import Scores
from refusal_checks.gates.compare import Earlier, Texts
from refusal_checks.gates.early_stopping import EarlyStopping, shuffled
from refusal_checks.gates.estimates import Rules
from refusal_checks.gates.gate import Gate
from refusal_checks.judges.trust import canary
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics import paired
from refusal_checks.models import demo
from refusal_checks.models.recordings import replay
from refusal_checks.models.recordings.replay import ReplayOptions
from refusal_checks.models.spec import Replay, describe
from refusal_checks.results.manifest import Manifest, conditions
from refusal_checks.results.outbox import Board
from refusal_checks.results.redact import Redaction
from refusal_checks.results.summary import RunSummary
from refusal_checks.run.assembly import Parts, assemble, convert, pool_settings, prompts_of
from refusal_checks.run.evaluate import Pending, Plan, Task, pending, prompts_at_once
from refusal_checks.run.manifest import manifest
from refusal_checks.run.options.command_line import Baseline, Options
from refusal_checks.run.trust import Canary, known_evidence, provenance, require_own_labels


def find_earlier(
    wanted: Baseline, reading: ReplayOptions, manifest: Manifest, store: Store, plan: Plan
) -> dict[str, Earlier]:
    """The earlier run of each benchmark in the baseline; empty without ``--baseline``.

    Args:
        reading: how recorded answers are read.
    """
    if wanted.path is None:
        return {}
    found = _compared(baseline.load(wanted.path), wanted, reading, manifest, store, plan)
    anchors = _compared(baseline.load_anchor(wanted.path), wanted, reading, manifest, store, plan)
    return {name: replace(each, anchor=anchors.get(name)) for name, each in found.items()}


def _compared(
    known: Mapping[str, Scores],
    wanted: Baseline,
    reading: ReplayOptions,
    manifest: Manifest,
    store: Store,
    plan: Plan,
) -> dict[str, Earlier]:
    """The benchmarks of an earlier run that this one has; BaselineError unless comparable."""
    found = {name: known[name] for name in manifest.data if name in known}
    asked = {name: plan.get(name, ()) for name in found}
    differences = {
        name: tuple(
            baseline.differences(scores.conditions, _wanted(scores, manifest, name, asked[name]))
        )
        for name, scores in found.items()
    }
    named = [f"{name}: {each}" for name, several in differences.items() for each in several]
    if named and not wanted.allow_incomparable:
        raise BaselineError(
            f"--baseline {wanted.path}: not comparable with this run:\n  "
            + "\n  ".join(named)
            + "\nrun both under the same conditions, accept a new baseline, or compare anyway with "
            "--allow-incomparable"
        )
    return {
        name: Earlier(
            scores,
            differences[name],
            _texts(scores, reading, store),
            same_candidate=(scores.title or scores.candidate)
            in (manifest.title, manifest.candidate),
        )
        for name, scores in found.items()
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
    what = f"--baseline {path}: accept a run with {names}" if path else "name one with --baseline"
    raise BaselineError(
        f"{what}: [settings] require_baseline asks for a baseline, and max_drop and max_rise of "
        f"{count(len(alone), 'gate')} have none, {alone[0].id} first"
    )


def _require_possible(
    gates: Iterable[Gate], known: Mapping[str, Benchmark], plan: Plan, level: float
) -> None:
    """Refuse margins so narrow that the same model again would fail them."""
    for gate in gates:
        margins = [each for each in (gate.max_drop, gate.max_rise) if each is not None]
        if METRICS[gate.metric].counts is None or gate.on_inconclusive in ("warn", "pass"):
            continue
        prompts = [p for p in prompts_of(known[gate.benchmark], plan) if gate.looks_at(p)]
        n = len({prompt.id for prompt in prompts})
        if METRICS[gate.metric].units(prompts) is not None:
            continue
        if (needed := paired.prompts_for_margin(min(margins), level)) > n:
            more = f", or ask {needed} prompts" if needed < paired.MOST else ""
            raise ThresholdError(
                f"{gate.source}: {gate.id}: allow more than {min(margins):.3g}{more}: with "
                f"{count(n, 'prompt')} the same model again would fail, because even without a "
                "single change they do not show that there is none"
            )


def _wanted(
    scores: Scores, manifest: Manifest, name: str, prompts: Sequence[Prompt]
) -> dict[str, str]:
    """The conditions that an earlier run must have had to be comparable.

    Another draw of as many prompts from the same data (versions draw in different ways) is no
    difference, if half of the prompts or more are in both: they are compared, the others counted.
    """
    wanted, data = conditions(manifest, name), manifest.data[name]
    both = [prompt for prompt in prompts if prompt.id in scores.prompts]
    same_data = (
        data.limit is not None
        and len(scores.prompts) == len(prompts) <= 2 * len(both)
        and scores.conditions.get("data", "").endswith(f", revision {data.revision}")
        and all(scores.prompts[each.id].prompt == baseline.fingerprint(each) for each in both)
    )
    return wanted | {"data": scores.conditions["data"]} if same_data else wanted


def _texts(scores: Scores, reading: ReplayOptions, store: Store) -> Texts:
    """Looks up earlier answers in the recording that they came from, or else in the store."""
    recording = _recording(scores, reading)

    def look_up(prompt: Prompt, keys: Sequence[str]) -> dict[str, str]:
        if recording is None:
            return {key: found.text for key, found in store.completions(keys).items()}
        answers = enumerate(recording.answers(prompt))
        return {f"{prompt.id}-{sample}": answer.text for sample, answer in answers}

    return look_up


def _recording(scores: Scores, reading: ReplayOptions) -> replay.Recording | None:
    """The recording of the earlier run, if it still exists unchanged."""
    kind, _, name = scores.candidate.partition(":")
    path = Path(name).expanduser()
    if kind != "replay" or not path.is_file():
        return None
    if describe(Replay(scores.candidate, path))["version"] != scores.version:
        return None
    try:
        return replay.read(path, reading)
    except DataError:
        return None


@dataclass(frozen=True)
class Prepared:
    """A run that can start: what it was asked, and what was read and opened for it.

    Attributes:
        gates: the selected gates; none checks the judge alone.
        board: where outcomes are published; its folder also takes logs and the summary.
        say: shows one line to the user.
        summary: filled while the run goes on.
        parts: prompts, candidate, judges and servers.
        rules: how gates are decided.
        store: stored answers and verdicts, open.
        earlier: the baseline's scores, by benchmark.
        early: stops benchmarks early; None evaluates them in full.
        canary: the judge's own check.
    """

    options: Options
    gates: Sequence[Gate]
    board: Board
    say: Callable[[str], None]
    summary: RunSummary
    parts: Parts
    rules: Rules
    store: Store
    earlier: Mapping[str, Earlier]
    early: EarlyStopping | None
    canary: Canary

    @property
    def redaction(self) -> Redaction:
        """Hides texts if the run was asked to."""
        return Redaction(self.options.redact)

    @property
    def is_complete(self) -> bool:
        """True if every outcome is known."""
        decided = len(self.summary.verdicts) + len(self.summary.errors)
        return decided == len(self.gates) and bool(self.canary.why_idle or self.summary.judge)

    def in_flight(self, copies: int = 1) -> int:
        """Prompts that are answered or judged at one time; see ``prompts_at_once``."""
        options = self.options
        models = (options.answering.model, *options.judging.models)
        return prompts_at_once(
            options.limits,
            models,
            options.answering.sampling.samples,
            stop_early=options.stop_early,
            copies=copies,
        )

    def pending(self, plan: Plan) -> list[Pending]:
        """What a plan leaves to do: for the judges, then for each repetition of their verdicts."""
        panels = (self.parts.judges, *self.parts.repeats)
        candidate, store = self.parts.candidate, self.store
        return [pending(Task(plan, candidate, judges, store)) for judges in panels]


def prepare(
    options: Options,
    gates: Sequence[Gate],
    board: Board,
    say: Callable[[str], None],
    servers: Servers | None = None,
    shared: Shared | None = None,
) -> Prepared:
    """Read and check all that a run needs; starts nothing.

    Args:
        servers: the models' servers; None means engines that are started for the run.
        shared: the engines of all runs that take turns, see ``Engines``.

    Raises:
        UserError: data, recorded answers, models or endpoints are not what was asked for.
        StoreError: the store cannot be opened.
    """
    answering, judging, known = options.answering, options.judging, options.questions.benchmarks
    models = (answering.model, *judging.models)
    summary, redaction = RunSummary(), Redaction(options.redact)
    redaction.require_silent(models)
    for line in options.notes:
        summary.note(line)
    names = (answering.model.name, *(judge.name for judge in judging.judges))
    if any(name.startswith("demo:") for name in names):
        summary.note(demo.catalogue().note)
    if servers is None:
        convert(models, say)
        settings = pool_settings(answering, judging, options.limits, options.placement)
        servers = Engines(settings, board.folder, shared)
    parts = assemble(options, gates, servers, say, summary.note)
    evidence = known_evidence(
        options.trust, gates, parts.judges, known, parts.plan, answering, options.rules.level
    )
    path = redaction.store(options.store, board.folder, options.fresh)
    summary.manifest = manifest(options, parts).extended(
        **provenance(options.trust), store=str(path)
    )
    store = Store(path, options.retry_unfinished)
    try:
        require_own_labels(options.trust.labels, parts.plan, parts.candidate, store, board)
        earlier = find_earlier(
            options.baseline, answering.replay, summary.manifest, store, parts.plan
        )
        compared = [
            gate
            for gate in gates
            if gate.has_margins and (found := earlier.get(gate.benchmark))
            if found.anchor or not gate.is_total
        ]
        _require_possible(compared, known, parts.plan, options.rules.level)
        if options.baseline.is_required:
            _require_compared(gates, earlier, options.baseline.path)
    except BaseException:
        store.close()
        raise
    early = None
    if options.stop_early:
        seed = answering.sampling.seed
        order = {name: shuffled(prompts, name, seed) for name, prompts in parts.plan.items()}
        parts = parts._replace(plan=order)
        in_full = [name for gate in gates for name in known[gate.benchmark].under]
        watched = [gate for gate in gates if gate.benchmark in order]
        early = EarlyStopping(watched, order, options.rules.level, in_full)
    return Prepared(
        options=options,
        gates=gates,
        board=board,
        say=say,
        summary=summary,
        parts=parts,
        rules=replace(options.rules, evidence=evidence),
        store=store,
        earlier=earlier,
        early=early,
        canary=Canary(parts.judges.get(canary.NAME, ()), options.trust.floors, store),
    )
