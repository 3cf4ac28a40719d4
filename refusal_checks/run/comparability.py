"""The earlier run that figures are compared with, if the two runs are comparable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from refusal_checks.benchmarks import Benchmark
from refusal_checks.core.errors import BaselineError, DataError
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.store import Store
from refusal_checks.gates import baseline
from refusal_checks.gates.baseline import PromptScores, Scores
from refusal_checks.gates.compare import Earlier, Texts
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.models.recordings import replay
from refusal_checks.models.spec import Replay, describe
from refusal_checks.results.conditions import conditions
from refusal_checks.results.manifest import Manifest
from refusal_checks.run.options.command_line import Options


def scores(
    manifest: Manifest,
    benchmark: Benchmark,
    figures: Mapping[str, Estimate],
    prompts: Mapping[str, PromptScores],
) -> Scores:
    """The scores of a benchmark, for later runs to be compared with."""
    return Scores(
        benchmark=benchmark.name,
        kind=benchmark.kind,
        candidate=manifest.candidate,
        version=manifest.models.candidate.version,
        started=manifest.started,
        conditions=conditions(manifest, benchmark.name),
        figures=figures,
        prompts=prompts,
        title=manifest.title,
    )


def find(
    options: Options, manifest: Manifest, store: Store, plan: Mapping[str, Sequence[Prompt]]
) -> dict[str, Earlier]:
    """The earlier run of each benchmark in the baseline; empty without ``--baseline``.

    Args:
        plan: the prompts of each benchmark.

    Raises:
        BaselineError: the baseline cannot be read, or is not comparable and
            ``--allow-incomparable`` is not given.
    """
    if options.baseline is None:
        return {}
    known = baseline.load(options.baseline)
    found = {name: known[name] for name in manifest.data if name in known}
    asked = {name: plan.get(name, ()) for name in found}
    differences = {
        name: tuple(baseline.differences(scores, _wanted(scores, manifest, name, asked[name])))
        for name, scores in found.items()
    }
    named = [f"{name}: {each}" for name, several in differences.items() for each in several]
    if named and not options.allow_incomparable:
        raise BaselineError(
            f"--baseline {options.baseline}: not comparable with this run:\n  "
            + "\n  ".join(named)
            + "\nrun both under the same conditions, accept a new baseline, or compare anyway with "
            "--allow-incomparable"
        )
    return {
        name: Earlier(
            scores,
            differences[name],
            _texts(scores, options, store),
            same_candidate=(scores.title or scores.candidate)
            in (manifest.title, manifest.candidate),
        )
        for name, scores in found.items()
    }


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


def _texts(scores: Scores, options: Options, store: Store) -> Texts:
    """Looks up earlier answers in the recording that they came from, or else in the store."""
    recording = _recording(scores, options)

    def look_up(prompt: Prompt, keys: Sequence[str]) -> dict[str, str]:
        if recording is None:
            return {key: found.text for key, found in store.completions(keys).items()}
        answers = enumerate(recording.answers(prompt))
        return {f"{prompt.id}-{sample}": answer.text for sample, answer in answers}

    return look_up


def _recording(scores: Scores, options: Options) -> replay.Recording | None:
    """The recording of the earlier run, if it still exists unchanged."""
    kind, _, name = scores.candidate.partition(":")
    path = Path(name).expanduser()
    if kind != "replay" or not path.is_file():
        return None
    if describe(Replay(scores.candidate, path))["version"] != scores.version:
        return None
    try:
        return replay.read(path, options.replay)
    except DataError:
        return None
