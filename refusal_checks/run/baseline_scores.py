"""Read the earlier runs to compare with, and check that margins can be decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from refusal_checks.core.errors import BaselineError, DataError, ThresholdError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.settings import RecordingTable
from refusal_checks.core.text import count
from refusal_checks.gates import score_files
from refusal_checks.gates.comparison import Earlier, Texts
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.score_files import Scores
from refusal_checks.io.store import Store
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.statistics import paired
from refusal_checks.models.identity import describe_model
from refusal_checks.models.model_names import Replay
from refusal_checks.models.recordings import recording_file
from refusal_checks.results.manifest import Manifest, conditions
from refusal_checks.results.run_folder import read_earlier_scores
from refusal_checks.run.inputs import Inputs
from refusal_checks.run.plan import Task


def read_baseline(inputs: Inputs) -> Mapping[str, Scores]:
    """Read the baseline; BaselineError if it is broken, or lacks a benchmark that needs it."""
    path = inputs.baseline
    baseline = read_earlier_scores(path) if path else {}
    if path:
        score_files.require_shared(path, baseline, inputs.spec.evaluated)
    if inputs.spec.settings.require_baseline:
        _require_baseline(inputs.gates, baseline, path)
    return baseline


def earlier_results(
    inputs: Inputs, baseline: Mapping[str, Scores], manifest: Manifest, work: Task
) -> dict[str, Earlier]:
    """Return the earlier run of each benchmark in the baseline.

    Raises:
        BaselineError: the baseline was made under other conditions.
        ThresholdError: a margin is so narrow that an unchanged model would fail it.
    """
    spec, plan = inputs.spec, work.plan
    names = (manifest.title, manifest.candidate)
    earlier = {}
    for name in manifest.data:
        scores = baseline.get(name)
        if scores is None:
            continue
        now = conditions(manifest, name)
        earlier[name] = Earlier(
            scores,
            tuple(score_files.differences(scores.conditions, now)),
            _texts(scores, spec.recording, work.store, plan.get(name, ())),
            # By either name: a release may have moved from a folder to a server since.
            same_candidate=(scores.title or scores.candidate) in names,
        )
    if not spec.baseline.allow_incomparable:
        _require_comparable(earlier, inputs.baseline)
    for gate in inputs.gates:
        if gate.benchmark in earlier and gate.has_margins:
            for part in gate.expand_groups(plan[gate.benchmark]):
                _require_possible(
                    part, gate, plan[gate.benchmark], spec.settings.confidence
                )
    return earlier


def _require_comparable(earlier: Mapping[str, Earlier], baseline: Path | None) -> None:
    """Raise BaselineError if an earlier run was made under other conditions than this one."""
    benchmarks: dict[str, list[str]] = {}
    for name, run in earlier.items():
        for difference in run.differences:
            benchmarks.setdefault(difference, []).append(name)
    if not benchmarks:
        return
    lines = [
        f"{', '.join(names)}: {difference}" for difference, names in benchmarks.items()
    ]
    raise BaselineError(
        f"--baseline {baseline}: not comparable with this run:\n  "
        + "\n  ".join(lines)
        + "\nrun both under the same conditions, accept a new baseline, or compare anyway "
        "with --set baseline.allow_incomparable=true"
    )


def _texts(
    scores: Scores, reading: RecordingTable, store: Store, prompts: Sequence[Prompt]
) -> Texts:
    """Look up earlier answers in their recording, if it is unchanged, or in the store."""
    recording = None
    kind, _, name = scores.candidate.partition(":")
    path = Path(name).expanduser()
    if kind == "replay" and path.is_file():
        recorded = Replay(scores.candidate, path)
        # A recording that has changed since has other answers than those that were scored.
        if describe_model(recorded)["version"] == scores.version:
            with suppress(DataError):
                recording = recording_file.read_recording(recorded, prompts, reading)

    def look_up(prompt: Prompt, keys: Sequence[str]) -> dict[str, str]:
        if recording is None:
            answers = store.completions(keys)
            return {key: answer.text for key, answer in answers.items()}
        answers_there = enumerate(recording.answers_to(prompt))
        return {
            f"{prompt.id}-{sample}": answer.text for sample, answer in answers_there
        }

    return look_up


def _require_baseline(
    gates: Sequence[Gate], earlier: Mapping[str, Scores], path: Path | None
) -> None:
    """Refuse a run in which a gate has a margin but no baseline."""
    alone = [
        gate for gate in gates if gate.has_margins and gate.benchmark not in earlier
    ]
    if not alone:
        return
    remedy = "name one with --baseline"
    if path:
        names = ", ".join(dict.fromkeys(gate.benchmark for gate in alone))
        remedy = f"--baseline {path}: accept a run with {names}"
    raise BaselineError(
        f"{remedy}: [settings] require_baseline asks for a baseline, and max_drop and max_rise of "
        f"{count(len(alone), 'gate')} have none, {alone[0].id} first"
    )


def _require_possible(
    gate: Gate, written: Gate, prompts: Sequence[Prompt], level: float
) -> None:
    """Refuse the margins of one gate, if its prompts are too few for them.

    Where a gate applies to every group, this is the gate on one of them.
    """
    metric = METRICS[gate.metric]
    prompts = [prompt for prompt in prompts if gate.looks_at(prompt)]
    decides = metric.counts is not None and gate.on_inconclusive not in ("warn", "pass")
    if not decides or metric.units(prompts) is not None:
        return
    size = len({prompt.id for prompt in prompts})
    margins = (gate.max_drop, gate.max_rise)
    narrowest = min(margin for margin in margins if margin is not None)
    needed = paired.prompts_for_margin(narrowest, level)
    if needed <= size:
        return
    more = f", or ask {needed} prompts" if needed < paired.MOST else ""
    where = ""
    if written.is_on_every_group:
        more += ', or write on_inconclusive = "warn" beside it'
        where = f" of {gate.group_kind} {gate.group}"
    raise ThresholdError(
        f"{gate.source}: {written.id}: allow more than {narrowest:.3g}{more}: with "
        f"{count(size, 'prompt')}{where} even an unchanged model would fail, because so few "
        "cannot show that nothing changed"
    )
