"""Forecast a run's requests, tokens and time, and count earlier attempts at its gates."""

import json
import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from refusal_checks.core.strict_json import parse_json
from refusal_checks.core.text import duration
from refusal_checks.models.client.usage import Usage
from refusal_checks.results.manifest import Attempts, Manifest
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


def attempts(
    manifest: Manifest, gates: Collection[str], runs: Path, *, asks: bool
) -> Attempts:
    """Count how often the candidate was tried on any of these gates among the latest runs.

    Two kinds of run do not count: one that found all its answers in the store, since it repeats an
    earlier run, and one of fewer prompts with the same settings, since this run continues it. This
    run counts if it ``asks`` the candidate.
    """
    tried = failed = 0
    for run in _latest_runs(runs):
        passed = [
            bool(run.verdicts[gate]["passed"]) for gate in gates if gate in run.verdicts
        ]
        if passed and _is_attempt(run.manifest, manifest):
            tried += 1
            if not all(passed):
                failed += 1
    if asks:
        tried += 1
    return Attempts(number=tried, failed=failed)


def _is_attempt(earlier: Manifest, now: Manifest) -> bool:
    """True if an earlier run tried the same candidate, and neither repeats nor begins this one."""
    if earlier.models.candidate != now.models.candidate:
        return False
    if not earlier.asked or not earlier.asked.answers:
        return False
    is_partial = any(data.is_partial for data in earlier.data.values())
    return not (is_partial and _text(earlier.sampling) == _text(now.sampling))


class _EarlierRun(NamedTuple):
    """An earlier run, read from its summary; verdicts by gate are the stored JSON."""

    name: str
    manifest: Manifest
    verdicts: Mapping[str, Any]


def _latest_runs(root: Path) -> Iterator[_EarlierRun]:
    """The latest runs, newest first, without those that are unfinished."""
    latest = all_runs(root)[-LOOKED_AT:]
    for folder in reversed(latest):
        with suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
            summary = parse_json(folder.summary_file.read_bytes())
            manifest = Manifest.model_validate(summary["manifest"])
            verdicts = dict(summary.get("verdicts", {}))
            yield _EarlierRun(folder.path.name, manifest, verdicts)


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


def _text(values: Mapping[str, Any]) -> dict[str, str]:
    """Values as text that is the same before they are written to a file and after they are read."""
    return {name: json.dumps(value, sort_keys=True) for name, value in values.items()}
