"""The scores of an earlier run, prompt by prompt: one JSON file per benchmark, without any text.

A run writes these files into its folder (``scores/BENCHMARK.json``); ``refusal-checks baseline
accept`` copies them to a project's baseline. They hold prompt ids, fingerprints and numbers, sorted
and one prompt per line, so that a pull request shows what changed. Answers are named by their keys
in the store.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from refusal_checks.core import suggestions
from refusal_checks.core.errors import BaselineError
from refusal_checks.core.files import FILE_NAME, is_file_name
from refusal_checks.core.layout import told_apart
from refusal_checks.core.prompts import Kind, Prompt
from refusal_checks.core.records import Record
from refusal_checks.core.store import content_key
from refusal_checks.gates.gate import Use
from refusal_checks.judges.trust.correction import JudgeErrors
from refusal_checks.metrics import Metric, by_prompt, score_limits
from refusal_checks.metrics.statistics.intervals import Estimate

FORMAT = 1  # version of the files' meaning
FOLDER = "scores"  # the part of a run's folder with its files
ANCHOR = "anchor"  # that of a baseline's with an older release: the total change counts from there
_DIGITS = 9


@dataclass(frozen=True)
class PromptScores:
    """One prompt of a run."""

    prompt: str  # fingerprint of the messages
    scores: Mapping[
        str, float
    ]  # by metric; metrics in which the prompt has no score are absent
    # content key and verdict of each answer, in the order of their samples
    answers: tuple[tuple[str, str], ...] = ()
    # the lowest and the highest score by metric, if some answers have no verdict
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    # the score by metric that people's labels give, if it is in a random sample of them
    people: Mapping[str, float] = field(default_factory=dict)

    def limits_in(self, metric: Metric) -> tuple[float, float] | None:
        """The least and the most that the prompt may add to a metric's figure.

        None if it has no score for another reason than invalid answers.
        """
        if metric.name in self.limits:
            low, high = sorted(metric.values(self.limits[metric.name]))
            return low, high
        if metric.name not in self.scores:
            return None
        (value,) = metric.values([self.scores[metric.name]])
        return value, value


@dataclass(frozen=True)
class Scores:
    """One benchmark of a run."""

    benchmark: str
    kind: Kind
    candidate: str  # as the user named it
    version: str  # the fingerprint of its weights, or their revision
    started: str  # ISO date and time of the run
    # what figures depend on besides the candidate, by name; runs are comparable if all are equal
    conditions: Mapping[str, str]
    figures: Mapping[str, Estimate]  # every metric over all prompts
    prompts: Mapping[str, PromptScores]
    format: int = FORMAT
    title: str = ""  # the candidate's short name
    # figures that do not rest on the judge alone (people's labels, a calibration, a second judge),
    # by gate id and by what they rest on
    views: Mapping[str, Mapping[Use, Estimate]] = field(default_factory=dict)
    # of the judge in the calibration that corrects such a figure, by gate id
    errors: Mapping[str, JudgeErrors] = field(default_factory=dict)
    # what the gates asked for, by gate id and by the bound's name in run files
    bounds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


_SCORES = TypeAdapter(Scores)
_PROMPT = TypeAdapter(PromptScores)


def fingerprint(prompt: Prompt) -> str:
    return content_key(prompt.turns)[:16]


def score_prompts(
    records: Sequence[Record],
    scores: Mapping[str, Mapping[str, float]],
    keys: Callable[[Prompt], Sequence[str]],
    people: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
) -> Iterator[tuple[str, PromptScores]]:
    """The scores of a benchmark's prompts, in the order of their ids; ``keys`` are its answers'.

    ``scores`` and ``people``, those by people's labels, are by metric and prompt id.
    """
    limits = score_limits(records)
    for prompt, answers in sorted(by_prompt(records).items()):
        own, labelled = (
            {
                name: round(each[prompt], _DIGITS)
                for name, each in of.items()
                if prompt in each
            }
            for of in (scores, people)
        )
        ends = {
            name: (round(each[prompt][0], _DIGITS), round(each[prompt][1], _DIGITS))
            for name, each in limits.items()
            if prompt in each
        }
        verdicts = (answer.judgement.verdict for answer in answers)
        asked = answers[0].prompt
        given = tuple(zip(keys(asked), verdicts, strict=True))
        yield prompt, PromptScores(fingerprint(asked), own, given, ends, labelled)


def dump(scores: Scores) -> str:
    """The file's text: sorted, numbers rounded to nine digits, one prompt per line."""
    return "".join(parts(replace(scores, prompts={}), sorted(scores.prompts.items())))


def parts(scores: Scores, prompts: Iterable[tuple[str, PromptScores]]) -> Iterator[str]:
    """The same line by line, of prompts that need not be in memory, in the order of their ids."""
    data: dict[str, Any] = _SCORES.dump_python(
        scores, mode="json", exclude_defaults=True
    )
    data["format"] = scores.format
    views = data.get("views", {}).values()
    for estimate in chain(data["figures"].values(), *(each.values() for each in views)):
        estimate |= {key: round(value, _DIGITS) for key, value in estimate.items()}
    figures, _ = data.pop("figures"), data.pop("prompts")
    yield from ("{\n", *_members(sorted(data.items()), " "), ',\n "figures": {\n')
    yield from (*_members(sorted(figures.items()), "  "), '\n },\n "prompts": {\n')
    dumped = (
        (n, _PROMPT.dump_python(p, mode="json", exclude_defaults=True))
        for n, p in prompts
    )
    yield from _members(dumped, "  ")
    yield "\n }\n}\n"


def _members(values: Iterable[tuple[str, Any]], indent: str) -> Iterator[str]:
    for number, (key, value) in enumerate(values):
        comma = ",\n" if number else ""
        yield f"{comma}{indent}{json.dumps(key)}: {json.dumps(value, sort_keys=True)}"


def read(path: Path) -> Scores:
    try:
        scores = _SCORES.validate_json(path.read_bytes())
    except OSError as fault:
        raise BaselineError(f"{path}: cannot be read: {fault.strerror}") from None
    except ValidationError as fault:
        first = fault.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BaselineError(
            f"{path}: not a baseline file: {where}: {suggestions.problem(first)}; name a run's "
            "folder, or the folder that `refusal-checks baseline accept RUN DIR` wrote"
        ) from None
    if not is_file_name(scores.benchmark):  # it becomes the name of a file
        raise BaselineError(
            f"{path}: not a baseline file: benchmark: {scores.benchmark[:100]!r} is no name of a "
            f"benchmark, which has {FILE_NAME}; name a run of your own"
        )
    if scores.format != FORMAT:
        raise BaselineError(
            f"{path}: accept a new baseline; this one has format {scores.format}, and this version "
            f"of refusal-checks reads format {FORMAT}"
        )
    return scores


def load(path: Path) -> dict[str, Scores]:
    """The scores of an earlier run, by benchmark.

    From one benchmark's file, a folder of such files, or a run's folder or summary.json.
    """
    if path.name == "summary.json":
        path = path.parent
    if (path / FOLDER).is_dir():
        path = path / FOLDER
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise BaselineError(
            f"{path}: no baseline here; write one with `refusal-checks baseline accept RUN DIR`"
        )
    return {scores.benchmark: scores for scores in map(read, files)}


def differences(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The conditions that differ between two runs, each with what differs of both values."""
    found = []
    for name in dict.fromkeys([*then, *now]):
        before, after = (each.get(name, "") for each in (then, now))
        if before != after:
            parts = before.split(", "), after.split(", ")
            if len(parts[0]) == len(parts[1]):
                pairs = [
                    pair for pair in zip(*parts, strict=True) if pair[0] != pair[1]
                ]
                before, after = (", ".join(each) for each in zip(*pairs, strict=True))
            old, new = told_apart([before, after], 60)
            found.append(f"other {name}: {old or 'none'} then, {new or 'none'} now")
    return found
