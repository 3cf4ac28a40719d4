"""Forecast a run's requests, tokens and time."""

import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from refusal_checks.core.strict_json import parse_json
from refusal_checks.core.text import duration
from refusal_checks.models.client.usage import Usage
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.run_folder import all_runs

LOOKED_AT = 20
"""Read at most so many earlier runs."""


def forecast(manifest: Manifest, answers: int, verdicts: int, runs: Path) -> str:
    """One line on the requests, tokens and time to expect; empty if everything is stored."""
    # One request asks for all of a prompt's answers.
    samples = manifest.sampling.get("samples") or 1
    requests = math.ceil(answers / samples) + verdicts
    if not requests:
        return ""
    about = f"to expect: about {requests:,} requests"
    for run in _latest_runs(runs):
        if _asks_alike(run.manifest, manifest):
            effort = _effort(answers, verdicts, run.manifest)
            if effort:
                return f"{about}, {effort} (as run {run.name} took)"
    return f"{about}; tokens and time are shown once a run of these models has finished here"


class _EarlierRun(NamedTuple):
    """An earlier run, read from its summary."""

    name: str
    manifest: Manifest


def _latest_runs(root: Path) -> Iterator[_EarlierRun]:
    """The latest runs, newest first, without those that are unfinished."""
    latest = all_runs(root)[-LOOKED_AT:]
    for folder in reversed(latest):
        with suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
            summary = parse_json(folder.summary_file.read_bytes())
            manifest = Manifest.model_validate(summary["manifest"])
            yield _EarlierRun(folder.path.name, manifest)


def _asks_alike(earlier: Manifest, now: Manifest) -> bool:
    """True if the same models were asked in the same way."""
    is_same_way = bool(earlier.verdicts_alone) is bool(now.verdicts_alone)
    return is_same_way and earlier.models == now.models


def _effort(answers: int, verdicts: int, earlier: Manifest) -> str:
    """Tokens and time in words; empty unless the earlier run recorded both."""
    asked, seconds = earlier.asked, earlier.evaluation_s
    if not asked or not seconds or not asked.answers + asked.verdicts:
        return ""
    candidate = earlier.tokens.get("candidate", Usage())
    judge = earlier.tokens.get("judge", Usage())
    parts = (
        _tokens(answers, candidate, asked.answers),
        _tokens(verdicts, judge, judge.verdicts or asked.verdicts),
    )
    tokens = 0.0
    for part in parts:
        if part is None:
            return ""
        tokens += part
    share = (answers + verdicts) / (asked.answers + asked.verdicts)
    start = 0.0
    if earlier.engines and earlier.engines.started:
        start = sum(earlier.engines.ready_s)
    after = f" after {duration(start)} for the engines to start" if start else ""
    return f"{_rounded(tokens):,} tokens, {duration(seconds * share)}{after}"


def _tokens(expected: int, used: Usage, given: int) -> float | None:
    """Estimate the tokens of so many answers or verdicts from an earlier run.

    None if that run has no count: some servers report none.
    """
    counted = used.prompt + used.output
    if not expected:
        return 0.0
    return expected * counted / given if counted and given else None


def _rounded(number: float) -> int:
    """Round to two significant digits."""
    return int(float(f"{number:.1e}"))
