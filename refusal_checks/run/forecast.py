"""What a run will ask for: how long that took before, and why stored work is done again."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from refusal_checks.core.errors import BaselineError, DataError
from refusal_checks.core.files import parse_json
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.settings import JudgeSampling, Sampling
from refusal_checks.core.text import duration
from refusal_checks.gates import baseline
from refusal_checks.models.client.answers import Usage
from refusal_checks.results import run_folder
from refusal_checks.results.manifest import AnswerConditions, Attempts, Manifest, VerdictConditions
from refusal_checks.results.run_folder import PastRun, RunFolder, all_runs
from refusal_checks.run.evaluate import Pending, Plan

LOOKED_AT = 20
"""Most earlier runs that are read."""


class Work(NamedTuple):
    """What a run has to ask for.

    Attributes:
        answers, verdicts: how many are missing, verdicts at most.
        samples: answers to a prompt, which one request asks for.
    """

    answers: int
    verdicts: int
    samples: int

    @property
    def requests(self) -> int:
        """Requests, if no prompt has some of its answers already."""
        return -(-self.answers // max(1, self.samples)) + self.verdicts


def forecast(manifest: Manifest, work: Work, runs: Path) -> str:
    """One line on the requests, tokens and time to expect; empty if nothing is to be asked for.

    Args:
        manifest: of the run that is about to start.
        runs: the folder of the project's runs.
    """
    if not work.requests:
        return ""
    about = f"to expect: about {work.requests:,} requests"
    for folder, earlier in _earlier(manifest, runs):
        if told := _told(work, earlier):
            return f"{about}, {told} (as run {folder.path.name} took)"
    return f"{about}; tokens and time will be known once a run of these models has finished here"


def attempts(manifest: Manifest, gates: Collection[str], runs: Path, *, asks: bool) -> Attempts:
    """How often the candidate was tried on some of these gates, among the latest runs.

    Runs that found all answers in the store repeat another one, and a run of some prompts with this
    run's settings begins it: these are no attempts.

    Args:
        asks: this run asks the candidate.
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


def _earlier(manifest: Manifest, runs: Path) -> Iterator[tuple[RunFolder, Manifest]]:
    for folder, found, _ in _summaries(runs):
        alone = bool(found.verdicts_alone) is bool(manifest.verdicts_alone)
        if found.models == manifest.models and alone:
            yield folder, found


def _told(work: Work, earlier: Manifest) -> str:
    """Tokens and time in words; empty if the earlier run cannot tell both."""
    asked, seconds = earlier.asked, earlier.evaluation_s
    units = asked.answers + asked.verdicts if asked else 0
    if not asked or not seconds or not units:
        return ""
    candidate, judge = (earlier.tokens.get(role, Usage()) for role in ("candidate", "judge"))
    per_answer = _per(candidate, asked.answers)
    per_verdict = _per(judge, judge.verdicts or asked.verdicts)
    if (work.answers and per_answer is None) or (work.verdicts and per_verdict is None):
        return ""
    tokens = work.answers * (per_answer or 0.0) + work.verdicts * (per_verdict or 0.0)
    took = duration(seconds * (work.answers + work.verdicts) / units)
    start = sum(earlier.engines.ready_s) if earlier.engines and earlier.engines.started else 0.0
    after = f" after {duration(start)} for the engines to start" if start else ""
    return f"{_rough(tokens)} tokens, {took}{after}"


def _per(used: Usage, units: int) -> float | None:
    """Tokens for each answer or verdict; None if none was asked for, or the server tells none."""
    return (used.prompt + used.output) / units if units and used.prompt + used.output else None


def _rough(number: float) -> str:
    """A number with two digits that count."""
    return f"{int(float(f'{number:.1e}')):,}"


Conditions = Mapping[str, str]


@dataclass(frozen=True)
class Difference:
    """Differences from an earlier run of a benchmark.

    Attributes:
        answers: names of changed conditions of the answers; verdicts: of the verdicts alone.
        new: ids of prompts that the earlier run did not evaluate.
        why_new: the reason, ``data`` or ``limit``; empty if the prompts are the same.
    """

    answers: tuple[str, ...]
    verdicts: tuple[str, ...]
    new: frozenset[str] = frozenset()
    why_new: str = ""

    @property
    def size(self) -> int:
        """The number of changed conditions."""
        return len(self.answers) + len(self.verdicts) + bool(self.why_new)


def changes(
    manifest: Manifest, plan: Plan, folder: Path, count: Callable[[Plan], Pending]
) -> Iterator[str]:
    """One line for each set of changed conditions that makes the run redo stored work.

    Args:
        manifest: of the run that is about to start.
        plan: its prompts, by benchmark.
        folder: of this run, next to those of earlier runs.
        count: counts the work that is left to do in a plan.
    """
    earlier = list(_completed(folder))
    found = {name: _nearest(earlier, manifest, name, prompts) for name, prompts in plan.items()}
    known = {name: difference for name, difference in found.items() if difference}
    groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for name, difference in known.items():
        groups.setdefault((difference.answers, difference.verdicts), []).append(name)
    for (answers, verdicts), names in groups.items():
        old = {name: [p for p in plan[name] if p.id not in known[name].new] for name in names}
        todo = count(old)
        which = (*(answers if todo.answers else ()), *verdicts)
        if which and (todo.answers or todo.verdicts):
            of = f" of {', '.join(names)}" if len(groups) > 1 else ""
            yield (
                f"{', '.join(which)}{of} changed: {todo.verdicts} verdicts to redo, "
                f"{todo.answers} answers to regenerate"
            )
    for name, difference in known.items():
        if difference.new:
            yield f"{difference.why_new} of {name} changed: {len(difference.new)} prompts are new"


def _completed(folder: Path) -> Iterator[PastRun]:
    runs = [run for run in run_folder.all_runs(folder.parent) if run.path != folder]
    for run in reversed(runs[-LOOKED_AT:]):
        with suppress(DataError):  # a run that was killed, or of another version
            yield PastRun(run, run.summary())


def _nearest(
    earlier: Sequence[PastRun], manifest: Manifest, name: str, prompts: Sequence[Prompt]
) -> Difference | None:
    """The difference from the most similar run; from the newest of equally similar ones."""
    differences = []
    for run, summary in earlier:
        if name in summary.benchmarks:
            with suppress(KeyError):  # a manifest of another version
                differences.append(_difference(run, summary.manifest, manifest, name, prompts))
    return min(differences, key=lambda difference: difference.size, default=None)


def _difference(
    run: RunFolder, then: Manifest, now: Manifest, name: str, prompts: Sequence[Prompt]
) -> Difference:
    before, after = then.answer_conditions(name), now.answer_conditions(name)
    mcq = any(prompt.options for prompt in prompts)
    answers = _changed(_of_answers(before, mcq), _of_answers(after, mcq))
    verdicts = _changed(
        *(_of_verdicts(manifest.verdict_conditions(name)) for manifest in (then, now))
    )
    if before.data.sha256 in ("", after.data.sha256):
        return Difference(answers, verdicts)
    why = "data" if before.data.limit == after.data.limit else "limit"
    try:
        scores = baseline.read(run.path / baseline.FOLDER / f"{name}.json")
    except BaselineError:
        return Difference(answers, verdicts)
    old = {prompt.prompt for prompt in scores.prompts.values()}
    new = frozenset(prompt.id for prompt in prompts if baseline.fingerprint(prompt) not in old)
    return Difference(answers, verdicts, new, why)


def _changed(then: Conditions, now: Conditions) -> tuple[str, ...]:
    """Names of conditions that differ and that both versions record.

    The settings of a model are left out if the model itself is another one.
    """
    names = [name for name in now if name in then and then[name] != now[name]]
    whole = [name for name in ("candidate", "judge model") if name in names]
    return tuple(name for name in names if not name.startswith(tuple(f"{one} " for one in whole)))


def _of_answers(conditions: AnswerConditions, multiple_choice: bool) -> Conditions:
    settings = conditions.model.model_dump(exclude={"version"})
    values = {
        "candidate": [conditions.candidate, conditions.model.version],
        **_named("candidate", settings),
        **_named("sampling", Sampling.with_unset(conditions.sampling)),
    }
    if multiple_choice:
        values["mcq scoring"] = conditions.scoring
    return _text(values)


def _of_verdicts(conditions: VerdictConditions) -> Conditions:
    judges = conditions.judges
    return _text(
        {
            "judge model": [(name, model.version) for name, model in judges.items()],
            "judge model settings": [
                model.model_dump(exclude={"version", "template"}) for model in judges.values()
            ],
            "judge prompt": conditions.prompts,
            "rationales": conditions.rationales,
            "max_answer_chars": conditions.max_answer_chars,
            **_named("judge", JudgeSampling.with_unset(conditions.sampling)),
        }
    )


def _named(what: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{what} {name}": value for name, value in values.items()}


def _text(values: Mapping[str, Any]) -> Conditions:
    """Values that compare equal whether or not they were written to a file in between."""
    return {name: json.dumps(value, sort_keys=True) for name, value in values.items()}
