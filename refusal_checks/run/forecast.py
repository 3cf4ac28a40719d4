"""What a run will ask for, and how long that took in an earlier run of the same models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from refusal_checks.core.files import parse_json
from refusal_checks.core.text import duration
from refusal_checks.models.client.answers import Usage
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.run_folder import RunFolder, all_runs

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


def _earlier(manifest: Manifest, runs: Path) -> Iterator[tuple[RunFolder, Manifest]]:
    """Runs of the same models, the newest first."""
    for folder in all_runs(runs)[: -LOOKED_AT - 1 : -1]:
        try:
            found = Manifest.model_validate(
                parse_json(folder.summary_file.read_bytes())["manifest"]
            )
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            continue  # it goes on, broke off, or is damaged
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
