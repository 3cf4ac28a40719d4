"""Facts on runs that several commands print as JSON, for scripts."""

from dataclasses import asdict
from typing import Any

from refusal_checks.gates import sentences
from refusal_checks.gates.verdict import Verdict
from refusal_checks.results.run_folder import RunView


def of_run(run: RunView) -> dict[str, Any]:
    return {
        "run": run.folder.path.absolute().name,
        "folder": str(run.folder.path),
        "candidate": run.summary.manifest.candidate,
        "answer": run.decision.answer,
        "reservations": [asdict(found) for found in run.decision.reservations],
    }


def of_verdict(verdict: Verdict) -> dict[str, Any]:
    estimate = verdict.estimate
    return {
        "outcome": sentences.mark(verdict),
        "passed": verdict.passed,
        "figure": estimate.value,
        "interval": [estimate.lower, estimate.upper],
        "n": estimate.n,
    }
