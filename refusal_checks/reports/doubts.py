"""Why a gate is inconclusive, and what would decide it."""

from __future__ import annotations

from collections.abc import Iterator

from refusal_checks.core.text import count
from refusal_checks.gates.gate import Outcome
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS


def why_open(verdict: Verdict) -> str:
    """Say which interval contains which threshold or margin."""
    gate, estimate, compared = verdict.gate, verdict.estimate, verdict.comparison
    if verdict.invalid.leave_open:
        return f"the valid answers pass, but {' and '.join(_worst_cases(verdict))}"
    inside = [
        end for end in gate.limits.ends if estimate.lower <= end <= estimate.upper
    ]
    if inside:
        thresholds = " and ".join(gate.show(end) for end in inside)
        return f"the interval contains the threshold {thresholds}"
    margins = gate.change_limits.ends
    if compared and any(compared.lower <= end <= compared.upper for end in margins):
        return "the interval of the change contains its margin"
    return "what its figure rests on is not enough for a pass"


def _worst_cases(verdict: Verdict) -> Iterator[str]:
    gate, compared = verdict.gate, verdict.comparison
    if (
        verdict.invalid.worst
        and gate.limits.outcome(*verdict.invalid.worst) is not Outcome.PASS
    ):
        low, high = (gate.show(end) for end in verdict.invalid.worst)
        yield f"with the invalid ones counted one way or the other the interval is [{low}, {high}]"
    worst = compared and compared.worst
    if compared and worst and gate.change_limits.outcome(*worst) is not Outcome.PASS:
        low, high = (METRICS[gate.metric].show_change(end) for end in worst)
        prompts = count(compared.doubtful, "prompt")
        yield f"the change of {prompts} with invalid answers leaves bounds of {low} and {high}"


def what_decides(verdict: Verdict) -> str:
    """Say what would decide an inconclusive gate: more prompts, answers, labels or verdicts."""
    need = verdict.need
    if verdict.invalid.leave_open:
        return "verdicts on these answers would decide it"
    if verdict.missing:
        return verdict.missing
    if need is None:
        return "more prompts would decide it"

    ways = []
    if need.labelled is not None and need.labels:
        more = f"({need.labels - need.labelled} more)"
        ways.append(f"human labels of {need.labels} prompts {more}")
    if need.prompts:
        more = f"({max(0, need.prompts - verdict.estimate.n)} more)"
        ways.append(f"{need.prompts} prompts {more}")
    if need.labelled is None and need.samples:
        ways.append(f"{need.samples} answers to each prompt,")
    if ways:
        return f"{', or '.join(ways)} would decide it 4 times in 5, if this is the true figure"
    if need.labelled is None:
        return "the figure lies exactly on it, so more prompts would not decide it"
    return "neither more prompts nor more human labels alone would decide it"
