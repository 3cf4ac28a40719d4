"""What would decide an inconclusive gate, in words: prompts, answers, labels or a calibration."""

from __future__ import annotations

from refusal_checks.gates.decide import Verdict
from refusal_checks.metrics.statistics.sample_size import Need

_LABELS = {"corrected": "labels in the calibration", "cascade": "verdicts of the second judge"}

_MORE = {
    "corrected": "a calibration on {} labels {}",
    "human": "human labels of {} prompts {}",
    "cascade": "the second judge's verdicts on {} prompts {}, see --cascade-sample,",
}


def what_decides(verdict: Verdict) -> str:
    """How many prompts or answers would decide, and on which assumption."""
    need, n = verdict.need, verdict.estimate.n
    if verdict.open_by_invalid:
        return "verdicts on these answers would decide it"
    if need is None and verdict.use == "cascade":
        return "a larger --cascade-sample, or more prompts, would decide it"
    if need is None:
        return "more prompts would decide it"
    if need.labelled is not None:
        return _label_need(verdict, need, need.labelled)
    if need.prompts is None:
        return "the figure lies exactly on it, so more prompts would not decide it"
    prompts = f"{need.prompts} prompts ({max(0, need.prompts - n)} more)"
    samples = f", or {need.samples} answers to each prompt," if need.samples else ""
    return f"{prompts}{samples} would decide it if the figure stayed the same"


def _label_need(verdict: Verdict, need: Need, labelled: int) -> str:
    """The same for a figure that rests on labels; the number that is scarce alone is named."""
    if need.prompts is None and need.labels is None:
        what = _LABELS.get(verdict.use, "human labels")
        return f"neither more prompts nor more {what} alone would decide it"
    ways = []
    if need.labels:
        more = f"({need.labels - labelled} more)"
        ways.append(_MORE.get(verdict.use, _MORE["human"]).format(need.labels, more))
    if need.prompts:
        ways.append(f"{need.prompts} prompts ({need.prompts - verdict.estimate.n} more)")
    return f"{', or '.join(ways)} would decide it if the figure stayed the same"
