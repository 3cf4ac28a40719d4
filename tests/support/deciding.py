"""Deciding one gate, as a run decides all gates of a benchmark."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.prompts import Kind
from refusal_checks.core.records import Record
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.decision import Rules, decide_all
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.results.summary import RunSummary


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


def summary_of(*verdicts: Verdict, **fields: Any) -> RunSummary:
    """A run's summary with these verdicts, and perhaps other fields."""
    found = {verdict.gate.id: verdict for verdict in verdicts}
    return RunSummary(verdicts=found, **fields)


def of_kind(kind: Kind | None, records: Iterable[Record]) -> list[Record]:
    """The records, of prompts of a kind."""
    return [replace(it, prompt=replace(it.prompt, kind=kind)) for it in records]
