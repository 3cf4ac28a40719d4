"""Scores of a run, prompt by prompt: one JSON file per benchmark, without any texts.

A run writes these files into its folder (``scores/BENCHMARK.json``); ``refusal-checks baseline
accept`` copies them to a project's baseline. They hold prompt ids, fingerprints and numbers, sorted
and one prompt per line, so that a pull request shows what changed. Answers are named by their keys
in the store.
"""

import json
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from refusal_checks.core import suggestions
from refusal_checks.core.errors import BaselineError
from refusal_checks.core.layout import shorten_names
from refusal_checks.core.prompts import Kind, Prompt
from refusal_checks.core.records import Record
from refusal_checks.core.text import join_words
from refusal_checks.io.files import FILE_NAME, append_seal, is_file_name, read_seal
from refusal_checks.io.store import content_key
from refusal_checks.metrics import Metric, group_by_prompt, score_limits
from refusal_checks.metrics.statistics.intervals import Estimate

FORMAT = 2  # version of the files' meaning
FOLDER = "scores"  # the part of a run's folder with its files
# Fewer digits make the files of two machines equal, whose last bits differ, and their diffs short.
_DIGITS = 9


@dataclass(frozen=True)
class PromptScores:
    """The scores of one prompt.

    Attributes:
        prompt: fingerprint of the messages.
        scores: score by metric; metrics in which the prompt has no score are absent.
        answers: content key and verdict of each answer, in sample order.
        limits: lowest and highest possible score by metric, if some answers have no verdict.
    """

    prompt: str
    scores: Mapping[str, float]
    answers: tuple[tuple[str, str], ...] = ()
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def limits_in(self, metric: Metric) -> tuple[float, float] | None:
        """The lowest and highest value that the prompt can add to a metric's figure.

        None if it has no score for a reason other than invalid answers.
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
    """The scores of one benchmark in a run.

    Attributes:
        candidate: as the user named it; ``title`` is its short name.
        version: fingerprint or revision of the candidate's weights.
        started: ISO date and time of the run.
        conditions: what figures depend on besides the candidate, by name. Runs are comparable if
            all are equal.
        figures: the figure of every metric over all prompts.
        bounds: the gates' bounds, by gate id and by the bound's name in run files.
    """

    benchmark: str
    kind: Kind
    candidate: str
    version: str
    started: str
    conditions: Mapping[str, str]
    figures: Mapping[str, Estimate]
    prompts: Mapping[str, PromptScores]
    format: int = FORMAT
    title: str = ""
    bounds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


_SCORES = TypeAdapter(Scores)
_PROMPT = TypeAdapter(PromptScores)


def fingerprint(prompt: Prompt) -> str:
    return content_key(prompt.turns)[:16]


def score_prompts(
    records: Sequence[Record],
    scores: Mapping[str, Mapping[str, float]],
    keys: Callable[[Prompt], Sequence[str]],
) -> Iterator[tuple[str, PromptScores]]:
    """Score a benchmark's prompts, in the order of their ids.

    ``scores`` are by metric and prompt id; ``keys`` gives the content keys of a prompt's answers.
    """
    # For the next release's comparison, which must hold however these answers are judged.
    limits = score_limits(records)
    for name, answers in sorted(group_by_prompt(records).items()):
        ends = {}
        for metric, by_id in limits.items():
            if name in by_id:
                low, high = by_id[name]
                ends[metric] = (round(low, _DIGITS), round(high, _DIGITS))
        prompt = answers[0].prompt
        verdicts = (answer.judgement.in_words for answer in answers)
        yield (
            name,
            PromptScores(
                fingerprint(prompt),
                _prompt_scores(name, scores),
                tuple(zip(keys(prompt), verdicts, strict=True)),
                ends,
            ),
        )


def _prompt_scores(
    prompt: str, scores: Mapping[str, Mapping[str, float]]
) -> dict[str, float]:
    """A prompt's rounded scores by metric; metrics without a score are absent."""
    return {
        metric: round(by_id[prompt], _DIGITS)
        for metric, by_id in scores.items()
        if prompt in by_id
    }


def dump(scores: Scores) -> str:
    """Write the file's text: sorted, numbers rounded to nine digits, one prompt per line."""
    return "".join(
        text_parts(replace(scores, prompts={}), sorted(scores.prompts.items()))
    )


def text_parts(
    scores: Scores, prompts: Iterable[tuple[str, PromptScores]]
) -> Iterator[str]:
    """Yield the same text in parts; prompts come in id order and need not all be in memory."""
    return append_seal(_json_parts(scores, prompts))


def _json_parts(
    scores: Scores, prompts: Iterable[tuple[str, PromptScores]]
) -> Iterator[str]:
    data: dict[str, Any] = _SCORES.dump_python(
        scores, mode="json", exclude_defaults=True
    )
    data["format"] = scores.format
    for estimate in data["figures"].values():
        for key, value in estimate.items():
            estimate[key] = round(value, _DIGITS)
    figures = data.pop("figures")
    del data["prompts"]
    yield from ("{\n", *_member_lines(sorted(data.items()), " "), ',\n "figures": {\n')
    yield from (*_member_lines(sorted(figures.items()), "  "), '\n },\n "prompts": {\n')
    dumped = (
        (name, _PROMPT.dump_python(prompt, mode="json", exclude_defaults=True))
        for name, prompt in prompts
    )
    yield from _member_lines(dumped, "  ")
    yield "\n },\n"


def _member_lines(values: Iterable[tuple[str, Any]], indent: str) -> Iterator[str]:
    for number, (key, value) in enumerate(values):
        comma = ",\n" if number else ""
        yield f"{comma}{indent}{json.dumps(key)}: {json.dumps(value, sort_keys=True)}"


def read(path: Path) -> Scores:
    try:
        content = path.read_bytes()
        scores = _SCORES.validate_json(content)
    except OSError as fault:
        raise BaselineError(f"{path}: cannot be read: {fault.strerror}") from None
    except ValidationError as fault:
        first = fault.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BaselineError(
            f"{path}: not a baseline file: {where}: {suggestions.describe_error(first)}; name a "
            "run's folder, or the folder that `refusal-checks baseline accept RUN DIR` wrote"
        ) from None
    if not is_file_name(scores.benchmark):  # it becomes the name of a file
        raise BaselineError(
            f"{path}: name a baseline of your own: benchmark: {scores.benchmark[:100]!r} is not a "
            f"benchmark's name ({FILE_NAME})"
        )
    if scores.format != FORMAT:
        raise BaselineError(
            f"{path}: accept a new baseline; this one has format {scores.format}, and this version "
            f"of refusal-checks reads format {FORMAT}"
        )
    try:
        read_seal(content)
    except ValueError as fault:
        raise BaselineError(
            f"{path}: restore it, or accept a baseline again: {fault}"
        ) from None
    return scores


def load(path: Path) -> dict[str, Scores]:
    """Load the scores of an earlier run, by benchmark.

    The path may be one benchmark's file, a folder of such files, or a run's folder or summary.json.
    """
    if path.name == "summary.json":
        path = path.parent
    if (path / FOLDER).is_dir():
        path = path / FOLDER
    # Else a run that measured nothing would look like a folder without a baseline.
    elif (path / "summary.json").is_file():
        raise BaselineError(
            f"{path}: name a run that has figures: this one decided nothing"
        )
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise BaselineError(
            f"{path}: no baseline here; write one with `refusal-checks baseline accept RUN DIR`"
        )
    return {scores.benchmark: scores for scores in map(read, files)}


def require_shared(
    path: Path, scores: Collection[str], evaluated: Collection[str]
) -> None:
    """Refuse a baseline that has none of the run file's benchmarks: nothing would be compared."""
    if not set(scores) & set(evaluated):
        raise BaselineError(
            f"--baseline {path}: accept a run with {join_words(evaluated)}, or leave it out: it "
            f"has {join_words(scores)} alone"
        )


def differences(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The conditions that differ between two runs, with the differing parts of both values."""
    lines = []
    for name in dict.fromkeys([*then, *now]):
        before, after = then.get(name, ""), now.get(name, "")
        if before == after:
            continue
        before, after = _differing_parts(before, after)
        before, after = shorten_names([before, after], 60)
        lines.append(f"other {name}: {before or 'none'} then, {after or 'none'} now")
    return lines


def _differing_parts(before: str, after: str) -> tuple[str, str]:
    """Drop the parts that two lists share; lists of different lengths stay as they are."""
    # Conditions list versions of many files, of which one differs.
    old, new = before.split(", "), after.split(", ")
    if len(old) != len(new):
        return before, after
    pairs = [(a, b) for a, b in zip(old, new, strict=True) if a != b]
    return ", ".join(a for a, _ in pairs), ", ".join(b for _, b in pairs)
