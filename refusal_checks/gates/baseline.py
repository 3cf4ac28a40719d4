"""The scores of an earlier run, prompt by prompt: one JSON file a benchmark, without any text.

A run writes these files into its folder (``scores/BENCHMARK.json``). ``refusal-checks baseline
accept`` copies them to where a project keeps its baseline, and nothing else ever writes one. They
hold prompt ids, fingerprints and numbers, sorted and one prompt a line, so that a pull request
shows what changed. Answers are named by the keys under which the store may still have them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from refusal_checks.core.errors import BaselineError
from refusal_checks.core.keys import content_key
from refusal_checks.core.prompts import Kind, Prompt
from refusal_checks.core.records import Record
from refusal_checks.metrics import by_prompt
from refusal_checks.metrics.statistics.intervals import Estimate

FORMAT = 1
"""Raised when the files' meaning changes."""

FOLDER = "scores"
"""Of a run's folder, where its own files are."""

_DIGITS = 9


@dataclass(frozen=True)
class PromptScores:
    """One prompt of a run.

    Attributes:
        prompt: fingerprint of the messages that were sent.
        scores: by metric; a metric in which the prompt has no score is absent.
        answers: content key and verdict of each answer, in the order of their samples.
    """

    prompt: str
    scores: Mapping[str, float]
    answers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Scores:
    """One benchmark of a run.

    Attributes:
        kind: what its prompts ask for: safety, sanity or sensitive.
        candidate: as the user named it; version: its weights' fingerprint or revision.
        started: ISO date and time of the run.
        conditions: what figures depend on besides the candidate, by name; runs that differ in one
            are not comparable.
        figures: every metric over all prompts.
        prompts: by prompt id.
    """

    benchmark: str
    kind: Kind
    candidate: str
    version: str
    started: str
    conditions: Mapping[str, str]
    figures: Mapping[str, Estimate]
    prompts: Mapping[str, PromptScores]
    format: int = field(default=FORMAT)


_SCORES = TypeAdapter(Scores)


def fingerprint(prompt: Prompt) -> str:
    """Of what is sent: equal for equal messages."""
    return content_key([(turn.role, turn.content) for turn in prompt.messages])[:16]


def score_prompts(
    records: Sequence[Record],
    scores: Mapping[str, Mapping[str, float]],
    keys: Mapping[str, Sequence[str]],
) -> dict[str, PromptScores]:
    """The scores of a benchmark's prompts, by prompt id.

    Args:
        scores: by metric and prompt id.
        keys: content keys of each prompt's answers, by prompt id.
    """
    return {
        id: PromptScores(
            fingerprint(answers[0].prompt),
            {name: round(found[id], _DIGITS) for name, found in scores.items() if id in found},
            tuple(zip(keys[id], (answer.judgement.verdict for answer in answers), strict=True)),
        )
        for id, answers in by_prompt(records).items()
    }


def dump(scores: Scores) -> str:
    """The file's text: sorted, numbers rounded to nine digits, one prompt a line."""
    data: dict[str, Any] = _SCORES.dump_python(scores, mode="json")
    prompts, figures = data.pop("prompts"), data.pop("figures")
    lines = [f"{_json(name)}: {_json(value)}" for name, value in sorted(data.items())]
    lines += [f'"{name}": {{\n{_members(found)}\n }}' for name, found in _named(figures, prompts)]
    return "{\n " + ",\n ".join(lines) + "\n}\n"


def _named(figures: Mapping[str, Any], prompts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    rounded = {
        name: {key: round(value, _DIGITS) for key, value in estimate.items()}
        for name, estimate in figures.items()
    }
    return [("figures", rounded), ("prompts", prompts)]


def _members(found: Mapping[str, Any]) -> str:
    return ",\n".join(f"  {_json(key)}: {_json(value)}" for key, value in sorted(found.items()))


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True)


def read(path: Path) -> Scores:
    """Read one file.

    Raises:
        BaselineError: it cannot be read, or is no such file.
    """
    try:
        scores = _SCORES.validate_json(path.read_bytes())
    except OSError as fault:
        raise BaselineError(f"{path}: cannot be read: {fault.strerror}") from None
    except ValidationError as fault:
        first = fault.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BaselineError(
            f"{path}: no file of a baseline: {where}: {first['msg']}; name a run's folder or what "
            "`refusal-checks baseline accept RUN DIR` wrote"
        ) from None
    if scores.format != FORMAT:
        raise BaselineError(f"{path}: format {scores.format}; this version reads format {FORMAT}")
    return scores


def load(path: Path) -> dict[str, Scores]:
    """The scores of an earlier run by benchmark.

    Args:
        path: a file of one benchmark, a folder of such files, a run's folder, or its summary.json.

    Raises:
        BaselineError: there is no such file, or one cannot be read.
    """
    if path.name == "summary.json":
        path = path.parent
    if (path / FOLDER).is_dir():
        path = path / FOLDER
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise BaselineError(
            f"{path}: no baseline there; write one with `refusal-checks baseline accept RUN DIR`"
        )
    return {scores.benchmark: scores for scores in map(read, files)}


def differences(earlier: Scores, conditions: Mapping[str, str]) -> list[str]:
    """What makes two runs incomparable, each named with both values; empty where nothing does."""
    names = dict.fromkeys([*earlier.conditions, *conditions])
    pairs = {name: (earlier.conditions.get(name, ""), conditions.get(name, "")) for name in names}
    return [
        f"other {name}: {_short(then)} then, {_short(now)} now"
        for name, (then, now) in pairs.items()
        if then != now
    ]


def _short(value: str) -> str:
    return (value if len(value) <= 90 else f"{value[:80]}…") or "none"
