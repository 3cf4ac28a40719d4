"""Why a run has to do again what earlier runs have done: which of its conditions are others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_checks.core.errors import BaselineError
from refusal_checks.core.prompts import Prompt
from refusal_checks.gates import baseline
from refusal_checks.results import run_folder
from refusal_checks.run.plan import Pending, Plan

Manifest = Mapping[str, Any]
Conditions = Mapping[str, str]

LOOKED_AT = 20
"""Most earlier runs that are compared."""

_FOREIGN = (LookupError, TypeError, ValueError, AttributeError)
"""What reading a manifest of another version raises."""


@dataclass(frozen=True)
class Difference:
    """What is different from an earlier run of a benchmark.

    Attributes:
        answers: names of conditions that answers depend on; verdicts: those of verdicts alone.
        new: ids of the prompts that it did not evaluate.
        why_new: what made them new, ``data`` or ``limit``; empty where the prompts are the same.
    """

    answers: tuple[str, ...]
    verdicts: tuple[str, ...]
    new: frozenset[str] = frozenset()
    why_new: str = ""

    @property
    def size(self) -> int:
        """How many conditions are others."""
        return len(self.answers) + len(self.verdicts) + bool(self.why_new)


def changes(
    manifest: Manifest, plan: Plan, folder: Path, count: Callable[[Plan], Pending]
) -> Iterator[str]:
    """Lines that name the conditions for which stored work is done again; none where none is.

    Args:
        manifest: of the run that is about to start.
        folder: the run's own; the earlier runs' are beside it.
        count: what is left to do of a plan.
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


def _completed(folder: Path) -> Iterator[tuple[Path, Manifest, frozenset[str]]]:
    """The latest runs with the benchmarks that they completed, the last one first."""
    runs = [run for run in run_folder.all_runs(folder.parent) if run.path != folder]
    for run in reversed(runs[-LOOKED_AT:]):
        try:
            summary = json.loads((run.path / "summary.json").read_bytes())
            yield run.path, summary["manifest"], frozenset(summary["benchmarks"])
        except (OSError, *_FOREIGN):
            continue  # a run that was killed, or of another version


def _nearest(
    earlier: Sequence[tuple[Path, Manifest, frozenset[str]]],
    manifest: Manifest,
    name: str,
    prompts: Sequence[Prompt],
) -> Difference | None:
    """The difference from the run that this one is most like, the later one of several."""
    differences = []
    for path, then, completed in earlier:
        if name in completed:
            with suppress(*_FOREIGN):
                differences.append(_difference(path, then, manifest, name, prompts))
    return min(differences, key=lambda difference: difference.size, default=None)


def _difference(
    path: Path, then: Manifest, now: Manifest, name: str, prompts: Sequence[Prompt]
) -> Difference:
    mcq = any(prompt.options for prompt in prompts)
    answers = _changed(_of_answers(then, mcq), _of_answers(now, mcq))
    verdicts = _changed(_of_verdicts(then, name), _of_verdicts(now, name))
    data = then["data"][name], now["data"][name]
    if data[0]["sha256"] == data[1]["sha256"]:
        return Difference(answers, verdicts)
    why = "data" if data[0].get("limit") == data[1].get("limit") else "limit"
    try:
        scores = baseline.read(path / baseline.FOLDER / f"{name}.json")
    except BaselineError:
        return Difference(answers, verdicts)
    old = {prompt.prompt for prompt in scores.prompts.values()}
    new = frozenset(prompt.id for prompt in prompts if baseline.fingerprint(prompt) not in old)
    return Difference(answers, verdicts, new, why)


def _changed(then: Conditions, now: Conditions) -> tuple[str, ...]:
    """Names of what is different; what only one of two versions knows of is not.

    Another model's own settings say nothing.
    """
    names = [name for name in now if name in then and then[name] != now[name]]
    whole = [name for name in ("candidate", "judge model") if name in names]
    return tuple(name for name in names if not name.startswith(tuple(f"{one} " for one in whole)))


def _of_answers(manifest: Manifest, multiple_choice: bool) -> Conditions:
    described = dict(manifest["models"]["candidate"])
    found = {"candidate": [manifest["candidate"], described.pop("version", "")]}
    found |= {f"candidate {name}": value for name, value in described.items()}
    found |= {f"sampling {name}": value for name, value in manifest["sampling"].items()}
    if multiple_choice:
        found["mcq scoring"] = manifest["multiple_choice"].get("scoring")
    return _text(found)


def _of_verdicts(manifest: Manifest, name: str) -> Conditions:
    prompts, models = manifest["judge_prompts"][name], manifest["models"]["judges"]
    described = [(judge, models.get(judge, {"version": judge})) for judge in prompts]
    found = {
        "judge model": [(judge, known.get("version")) for judge, known in described],
        "judge model settings": [
            {key: known.get(key) for key in known.keys() - {"version", "template"}}
            for _, known in described
        ],
        "judge prompt": list(prompts.values()),
        "max_answer_chars": manifest["data"][name].get("max_answer_chars"),
    }
    sampling = manifest["judge_sampling"]
    return _text(found | {f"judge {name}": value for name, value in sampling.items()})


def _text(found: Mapping[str, Any]) -> Conditions:
    """Values that can be compared whether they were written to a file in between or not."""
    return {name: json.dumps(value, sort_keys=True) for name, value in found.items()}
