"""A finished run as experiment trackers keep it: numbers and facts by name, and no text of a model.

Offenders, notes and errors stay out, since they may quote prompts and answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from refusal_checks import (
    DataError,
    RunFolder,
    RunSummary,
    UserError,
    release_decision,
    sanitize,
    strip_credentials,
)

LONGEST = 500
"""Most characters of a fact; trackers refuse long ones."""


def require(library: str) -> None:
    """Raise UserError unless a tracker's library is installed."""
    if find_spec(library) is None:
        raise UserError(
            f"reports.{library}: install {library} "
            f'(pip install "refusal-checks-extensions[{library}]")'
        )


@contextmanager
def faults(tracker: str) -> Iterator[None]:
    """Turn whatever a tracker's library raises into a DataError, which ends no session."""
    try:
        yield
    except DataError:
        raise
    except Exception as fault:
        why = sanitize(strip_credentials(str(fault) or type(fault).__name__))
        raise DataError(f"{tracker}: {why}") from None


def figures(summary: RunSummary) -> dict[str, float]:
    """Each gate's figure with its interval and n, and how many gates ended how."""
    verdicts = summary.verdicts
    found = {
        "gates/passed": float(
            sum(each.passed and not each.is_idle for each in verdicts.values())
        ),
        "gates/failed": float(sum(each.fails for each in verdicts.values())),
        "gates/waived": float(sum(each.waived for each in verdicts.values())),
        "gates/errors": float(len(summary.errors)),
    }
    for gate, verdict in verdicts.items():
        estimate = verdict.estimate
        found |= {
            f"{gate}/figure": estimate.value,
            f"{gate}/lower": estimate.lower,
            f"{gate}/upper": estimate.upper,
            f"{gate}/n": float(estimate.n),
            f"{gate}/invalid": verdict.invalid.share,
        }
    return found


def facts(summary: RunSummary, run: RunFolder) -> dict[str, str]:
    """What was run, and whether it may ship."""
    manifest, ships = summary.manifest, release_decision(summary)
    sampling = {
        name: value
        for name, value in manifest.sampling.items()
        if name != "system_prompt"
    }
    found = {
        "may_ship": ships.headline,
        "candidate": manifest.candidate,
        "judge": manifest.judge,
        "run": run.path.absolute().name,
        "started": manifest.started,
        "refusal_checks": manifest.versions.get("refusal-checks", ""),
        "git_commit": manifest.git_commit or "",
        "thresholds": json.dumps(manifest.thresholds),
        "sampling": json.dumps(sampling, default=str),
        "version": manifest.models.candidate.version,
    }
    return {name: sanitize(value, LONGEST) for name, value in found.items() if value}
