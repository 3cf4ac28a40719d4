"""Decide a complete benchmark: its gates, its figures, and remarks on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from refusal_checks.core.errors import EvaluationError
from refusal_checks.core.labelling import PEOPLE
from refusal_checks.core.records import Record
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.decision import decide_all
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges.rules import LabelsJudge
from refusal_checks.metrics import score_all
from refusal_checks.results.benchmark_summary import (
    BenchmarkSummary,
    Scores,
    summarise,
)
from refusal_checks.results.summary import quote_unread_verdict
from refusal_checks.run.inputs import Inputs
from refusal_checks.run.plan import SelectedBenchmark
from refusal_checks.run.stages.remarks import margin_remark, truncation_remarks
from refusal_checks.trust.agreement import LabelPair, pair_labels
from refusal_checks.trust.labels import Confirmation
from refusal_checks.trust.minimums import JudgeCheck


@dataclass(frozen=True)
class BenchmarkFindings:
    """The results of a complete benchmark.

    Attributes:
        outcomes: the verdicts of its gates, or why there is none, by gate id.
        scores: scores of prompts, by metric and prompt id.
        confirmed: how many of its refusals people confirm; None without a sheet of labels.
        compared: people's recorded labels beside the judge's verdicts.
        quote: a note that quotes an answer of a judge that could not be read; empty if all could.
    """

    benchmark: str
    records: Sequence[Record]
    outcomes: Mapping[str, Verdict | EvaluationError]
    scores: Scores
    summary: BenchmarkSummary
    notes: Sequence[str] = ()
    confirmed: Confirmation | None = None
    compared: Mapping[tuple[str, int], LabelPair] = field(default_factory=dict)
    quote: str = ""


def decide_benchmark(
    benchmark: SelectedBenchmark,
    records: Sequence[Record],
    inputs: Inputs,
    earlier: Earlier | None,
    check: JudgeCheck | None,
) -> BenchmarkFindings:
    """Decide a benchmark's gates, and compute its part of the summary.

    Args:
        earlier: its baseline, if it has one.
        check: of all judges of the run; None if they were not checked.
    """
    name, judges, rules = benchmark.name, benchmark.judges, inputs.rules
    # Errors and remarks may quote what a judge wrote.
    records = inputs.redaction.judgements(records)
    check = benchmark.check(check)
    outcomes = decide_all(benchmark.gates, records, rules, earlier)
    scores = score_all(records)
    has_labels = any(isinstance(judge, LabelsJudge) for judge in judges)
    has_models = any(judge.identity is not None for judge in judges)
    figures = summarise(
        records,
        rules.level,
        scores,
        planned=benchmark.size,
        kind=benchmark.definition.kind.value,
        parts=benchmark.definition.parts,
        has_labels=has_labels,
        measured=check.measured if check and has_models else None,
    )
    limits = truncation_remarks(
        records,
        inputs.sampling.max_tokens,
        max((judge.max_tokens for judge in judges), default=0),
        inputs.spec.candidate.reasoning_end,
    )
    notes = [f"{name}: {line}" for line in limits]
    verdicts = [found for found in outcomes.values() if isinstance(found, Verdict)]
    remark = margin_remark(name, verdicts, check)
    if remark:
        notes.append(remark)
    # Labels that are the verdicts themselves tell nothing about a judge.
    is_human = inputs.spec.recording.labelled_by == PEOPLE and not has_labels
    return BenchmarkFindings(
        name,
        records,
        outcomes,
        scores,
        figures,
        notes,
        inputs.labels.confirmation_of(name, records) if inputs.labels else None,
        dict(pair_labels(records, judges[0].partial)) if is_human else {},
        quote_unread_verdict(records, [judge.expected for judge in judges]),
    )
