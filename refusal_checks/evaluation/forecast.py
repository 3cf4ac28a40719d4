"""What a run will ask for, how long that took before, and how often its gates were tried."""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from refusal_checks.core.strict_json import parse_json
from refusal_checks.core.text import duration
from refusal_checks.models.client.usage import Usage
from refusal_checks.results.manifest import Attempts, Manifest
from refusal_checks.results.run_folder import RunFolder, all_runs

LOOKED_AT = 20
"""Most earlier runs that are read."""


def forecast(manifest: Manifest, answers: int, verdicts: int, runs: Path) -> str:
    """One line on the requests, tokens and time to expect; empty if nothing is to be asked for."""
    samples = (
        manifest.sampling.get("samples") or 1
    )  # one request asks for a prompt's answers
    requests = -(-answers // samples) + verdicts
    if not requests:
        return ""
    about = f"to expect: about {requests:,} requests"
    for folder, earlier, _ in _summaries(runs):
        alone = bool(earlier.verdicts_alone) is bool(manifest.verdicts_alone)
        is_like = earlier.models == manifest.models and alone
        if is_like and (told := _told(answers, verdicts, earlier)):
            return f"{about}, {told} (as run {folder.path.name} took)"
    return f"{about}; tokens and time are shown once a run of these models has finished here"


def attempts(
    manifest: Manifest, gates: Collection[str], runs: Path, *, asks: bool
) -> Attempts:
    """How often the candidate was tried on some of these gates, among the latest runs.

    Two kinds of run do not count: one that found all its answers in the store, since it repeats an
    earlier run, and one of fewer prompts with the same settings, since this run continues it. This
    run counts if it ``asks`` the candidate.
    """
    tried = failed = 0
    for _, found, verdicts in _summaries(runs):
        of_these = [verdicts[name] for name in gates if name in verdicts]
        is_same = found.models.candidate == manifest.models.candidate
        is_partial = any(data.is_partial for data in found.data.values())
        begins_this = is_partial and _text(found.sampling) == _text(manifest.sampling)
        if (
            is_same
            and of_these
            and not begins_this
            and found.asked
            and found.asked.answers
        ):
            tried += 1
            failed += any(not each["passed"] for each in of_these)
    return Attempts(number=tried + asks, failed=failed)


def _summaries(runs: Path) -> Iterator[tuple[RunFolder, Manifest, Mapping[str, Any]]]:
    """The latest runs, with the verdicts by gate as they are stored."""
    for folder in all_runs(runs)[: -LOOKED_AT - 1 : -1]:
        with suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
            data = parse_json(
                folder.summary_file.read_bytes()
            )  # it goes on, broke off, ...
            found = (
                Manifest.model_validate(data["manifest"]),
                dict(data.get("verdicts", {})),
            )
            yield folder, *found


def _told(answers: int, verdicts: int, earlier: Manifest) -> str:
    """Tokens and time in words; empty if the earlier run cannot tell both."""
    asked, seconds = earlier.asked, earlier.evaluation_s
    units = asked.answers + asked.verdicts if asked else 0
    if not asked or not seconds or not units:
        return ""
    candidate, judge = (
        earlier.tokens.get(role, Usage()) for role in ("candidate", "judge")
    )
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
    start = (
        sum(earlier.engines.ready_s)
        if earlier.engines and earlier.engines.started
        else 0.0
    )
    after = f" after {duration(start)} for the engines to start" if start else ""
    return f"{int(float(f'{tokens:.1e}')):,} tokens, {took}{after}"


def _text(values: Mapping[str, Any]) -> dict[str, str]:
    """Values as text, the same before they are written to a file and after they are read."""
    return {name: json.dumps(value, sort_keys=True) for name, value in values.items()}
