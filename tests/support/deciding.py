"""Deciding one gate, as a run decides all gates of a benchmark."""

from collections.abc import Sequence

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.records import Record
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.decision import Rules, decide_all
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict


def decide(
    gate: Gate,
    records: Sequence[Record],
    rules: Rules | None = None,
    earlier: Earlier | None = None,
) -> Verdict:
    """The verdict on one gate; raises its EvaluationError."""
    (decided,) = decide_all([gate], records, rules or Rules(), earlier).values()
    if isinstance(decided, EvaluationError):
        raise decided
    return decided
