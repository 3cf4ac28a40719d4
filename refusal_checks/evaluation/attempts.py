"""Count how often a candidate was tried on the same gates: enough attempts pass by chance.

The store remembers them, so that another folder of runs does not forget those that failed.
"""

from __future__ import annotations

from collections.abc import Collection

from refusal_checks.core.store import PastRun, Store, content_key
from refusal_checks.metrics import METRICS
from refusal_checks.results.manifest import Attempts, Manifest
from refusal_checks.results.summary import RunSummary

LOOKED_AT = 20
"""Look at most at so many earlier runs."""


def attempts(
    manifest: Manifest,
    gates: Collection[str],
    store: Store,
    *,
    asks: bool,
    is_other: bool,
) -> Attempts:
    """Count the candidate's earlier attempts at any of these gates.

    A run does not count if it had a part of the prompts in the same conditions and this run has
    all, since this run continues it; nor if it read a recording in the same way, since this run
    repeats it. This run counts if it ``asks`` the candidate. Runs before a server changed
    (``is_other``) are of another model, and are forgotten.
    """
    if is_other:
        store.forget_runs(_candidate(manifest))
    tried = failed = 0
    is_partial = _is_partial(manifest)
    for run in store.past_runs(_candidate(manifest), LOOKED_AT):
        passed = [run.passed[gate] for gate in gates if gate in run.passed]
        is_continued = run.is_partial and not is_partial
        is_alike = run.conditions == _conditions(manifest)
        if not passed or (is_alike and (is_continued or _is_recorded(manifest))):
            continue
        tried += 1
        if not all(passed):
            failed += 1
    if asks:
        tried += 1
    return Attempts(number=tried, failed=failed)


def remember(summary: RunSummary, store: Store) -> None:
    """Store a finished run for ``attempts``, unless it found all its answers in the store."""
    manifest = summary.manifest
    is_repeated = not _is_recorded(manifest) and not (
        manifest.asked and manifest.asked.answers
    )
    passed = {
        gate: verdict.passed
        for gate, verdict in summary.verdicts.items()
        # Answers that a fault left without a verdict are no attempt.
        if METRICS[verdict.gate.metric].group != "judging"
    }
    if is_repeated or not passed:
        return
    run = PastRun(_conditions(manifest), _is_partial(manifest), passed)
    store.keep_run(_candidate(manifest), run)


def _is_partial(manifest: Manifest) -> bool:
    return any(data.is_partial for data in manifest.data.values())


def _is_recorded(manifest: Manifest) -> bool:
    return manifest.candidate.startswith("replay:")


def _candidate(manifest: Manifest) -> str:
    return content_key("candidate", manifest.models.candidate.model_dump(mode="json"))


def _conditions(manifest: Manifest) -> str:
    """Key of how a recording is read, or of how answers are drawn."""
    if _is_recorded(manifest):
        return content_key("reading", manifest.spec.get("recording", {}))
    return content_key("sampling", manifest.sampling)
