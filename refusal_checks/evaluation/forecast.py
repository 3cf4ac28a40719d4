"""What a run will ask for: how long that took before, and why stored work is done again."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from refusal_checks.core.errors import BaselineError, DataError
from refusal_checks.core.files import parse_json
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.text import duration
from refusal_checks.evaluation.planning import Pending, Plan
from refusal_checks.gates import baseline
from refusal_checks.models.client.answers import Usage
from refusal_checks.results.manifest import Attempts, Manifest
from refusal_checks.results.run_folder import RunFolder, all_runs

LOOKED_AT = 20
"""Most earlier runs that are read."""


def forecast(manifest: Manifest, answers: int, verdicts: int, runs: Path) -> str:
    """One line on the requests, tokens and time to expect; empty if nothing is to be asked for."""
    samples = manifest.sampling.get("samples") or 1  # one request asks for a prompt's answers
    requests = -(-answers // samples) + verdicts
    if not requests:
        return ""
    about = f"to expect: about {requests:,} requests"
    for folder, earlier, _ in _summaries(runs):
        alone = bool(earlier.verdicts_alone) is bool(manifest.verdicts_alone)
        is_like = earlier.models == manifest.models and alone
        if is_like and (told := _told(answers, verdicts, earlier)):
            return f"{about}, {told} (as run {folder.path.name} took)"
    return f"{about}; tokens and time will be known once a run of these models has finished here"


def attempts(manifest: Manifest, gates: Collection[str], runs: Path, *, asks: bool) -> Attempts:
    """How often the candidate was tried on some of these gates, among the latest runs.

    Runs that found all answers in the store repeat another one, and a run of some prompts with this
    run's settings begins it: these are no attempts. This run is one if it ``asks`` the candidate.
    """
    tried = failed = 0
    for _, found, verdicts in _summaries(runs):
        of_these = [verdicts[name] for name in gates if name in verdicts]
        is_same = found.models.candidate == manifest.models.candidate
        is_partial = any(data.is_partial for data in found.data.values())
        begins_this = is_partial and _text(found.sampling) == _text(manifest.sampling)
        if is_same and of_these and not begins_this and found.asked and found.asked.answers:
            tried += 1
            failed += any(not each["passed"] for each in of_these)
    return Attempts(number=tried + asks, failed=failed)


def _summaries(runs: Path) -> Iterator[tuple[RunFolder, Manifest, Mapping[str, Any]]]:
    """The latest runs, with the verdicts by gate as they are stored."""
    for folder in all_runs(runs)[: -LOOKED_AT - 1 : -1]:
        with suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
            data = parse_json(folder.summary_file.read_bytes())  # it goes on, broke off, ...
            found = Manifest.model_validate(data["manifest"]), dict(data.get("verdicts", {}))
            yield folder, *found


def _told(answers: int, verdicts: int, earlier: Manifest) -> str:
    """Tokens and time in words; empty if the earlier run cannot tell both."""
    asked, seconds = earlier.asked, earlier.evaluation_s
    units = asked.answers + asked.verdicts if asked else 0
    if not asked or not seconds or not units:
        return ""
    candidate, judge = (earlier.tokens.get(role, Usage()) for role in ("candidate", "judge"))
    tokens = 0.0
    for wanted, used, given in (
        (answers, candidate, asked.answers),
        (verdicts, judge, judge.verdicts or asked.verdicts),
    ):
        counted = used.prompt + used.output
        if wanted and not (counted and given):  # a server may count none
            return ""
        tokens += wanted * counted / (given or 1)
    took = duration(seconds * (answers + verdicts) / units)
    start = sum(earlier.engines.ready_s) if earlier.engines and earlier.engines.started else 0.0
    after = f" after {duration(start)} for the engines to start" if start else ""
    return f"{int(float(f'{tokens:.1e}')):,} tokens, {took}{after}"


class Difference(NamedTuple):
    """Differences from an earlier run of a benchmark: conditions, and prompts that it had not.

    ``why_new`` is ``data`` or ``limit``, or empty if the prompts are the same.
    """

    changed: tuple[str, ...]
    new: frozenset[str] = frozenset()
    why_new: str = ""


def changes(
    manifest: Manifest, plan: Plan, folder: Path, count: Callable[[Plan], Pending]
) -> Iterator[str]:
    """One line for each set of changed conditions that makes the run redo stored work.

    A benchmark is compared with the most similar of the latest runs beside this one's folder.
    ``count`` counts the work that is left to do in a plan.
    """
    runs = [run for run in all_runs(folder.parent) if run.path != folder]
    found: dict[str, list[Difference]] = {name: [] for name in plan}
    for run in reversed(runs[-LOOKED_AT:]):
        with suppress(DataError):  # a run that was killed
            summary = run.summary()
            for name in plan.keys() & summary.benchmarks.keys():
                difference = _difference(run, summary.manifest, manifest, name, plan[name])
                found[name].append(difference)
    known = {
        name: min(several, key=lambda each: len(each.changed) + bool(each.why_new))
        for name, several in found.items()
        if several
    }
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, difference in known.items():
        groups.setdefault(difference.changed, []).append(name)
    for changed, names in groups.items():
        todo = count(
            {name: [p for p in plan[name] if p.id not in known[name].new] for name in names}
        )
        which = [each for each in changed if todo.answers or not each.startswith(_OF_ANSWERS)]
        if which and (todo.answers or todo.verdicts):
            of = f" of {', '.join(names)}" if len(groups) > 1 else ""
            yield (
                f"{', '.join(which)}{of} changed: {todo.verdicts} verdicts to redo, "
                f"{todo.answers} answers to regenerate"
            )
    for name, difference in known.items():
        if difference.new:
            yield f"{difference.why_new} of {name} changed: {len(difference.new)} prompts are new"


def _difference(
    run: RunFolder, then: Manifest, now: Manifest, name: str, prompts: Sequence[Prompt]
) -> Difference:
    has_options = any(prompt.options for prompt in prompts)
    old, new = (_conditions(each, name, has_options) for each in (then, now))
    names = [each for each in new if each in old and old[each] != new[each]]
    # Another model says all: its settings are not named.
    whole = tuple(f"{each} " for each in ("candidate", "judge model") if each in names)
    changed = tuple(each for each in names if not each.startswith(whole))
    before, after = then.data[name], now.data[name]
    if before.sha256 in ("", after.sha256):
        return Difference(changed)
    try:
        scores = baseline.read(run.path / baseline.FOLDER / f"{name}.json")
    except BaselineError:
        return Difference(changed)
    evaluated = {prompt.prompt for prompt in scores.prompts.values()}
    added = [prompt.id for prompt in prompts if baseline.fingerprint(prompt) not in evaluated]
    return Difference(changed, frozenset(added), "data" if before.limit == after.limit else "limit")


_OF_ANSWERS = ("candidate", "sampling", "mcq")
"""Begins the names of conditions that answers depend on; verdicts depend on the others too."""


def _conditions(manifest: Manifest, benchmark: str, has_options: bool) -> dict[str, str]:
    judges, candidate = manifest.judges_of(benchmark), manifest.models.candidate
    values = {
        "candidate": [manifest.candidate, candidate.version],
        **_named("candidate", candidate.model_dump(exclude={"version"})),
        **_named("sampling", manifest.sampling),
        **({"mcq scoring": manifest.multiple_choice.get("scoring")} if has_options else {}),
        "judge model": [(name, model.version) for name, model in judges.items()],
        "judge model settings": [
            model.model_dump(exclude={"version", "template"}) for model in judges.values()
        ],
        "judge prompt": tuple(manifest.judge_prompts[benchmark].values()),
        "rationales": manifest.rationales_of(benchmark),
        "max_answer_chars": manifest.data[benchmark].max_answer_chars,
        **_named("judge", manifest.judge_sampling),
    }
    return _text(values)


def _named(what: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{what} {name}": value for name, value in values.items()}


def _text(values: Mapping[str, Any]) -> dict[str, str]:
    """Values as text, the same before they are written to a file and after they are read."""
    return {name: json.dumps(value, sort_keys=True) for name, value in values.items()}
