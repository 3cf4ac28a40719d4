"""Check human labels of a run's answers before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from refusal_checks.core.errors import LabelError
from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Invalid, Reason
from refusal_checks.evaluation.planning import Task, known_verdict
from refusal_checks.judges.trust.label_checks import LabelCheck, require_agreement
from refusal_checks.judges.trust.labels import HumanLabels


def _judged(task: Task, name: str, records: Sequence[Record]) -> list[Record]:
    """Those of a benchmark's records that rules or the store have a verdict on, with it."""
    judged = []
    for record in records:
        assert record.completion
        verdict = known_verdict(task, name, record.prompt, record.completion)
        if verdict:
            judged.append(replace(record, judgement=verdict))
    return judged


def require_own_labels(labels: HumanLabels, task: Task, this_run: str) -> None:
    """Check human labels against the run's prompts and what is stored of it.

    Raises:
        LabelError: they label other prompts or other answers, or contradict most verdicts.
    """
    plan, candidate = task.plan, task.candidate
    if labels.draws and not any(draw.benchmark in plan for draw in labels.draws):
        named = ", ".join(dict.fromkeys(draw.benchmark for draw in labels.draws))
        raise LabelError(
            f"{labels.name}: select gates of {named}, or leave out --human-labels: the labels are "
            f"of {named}, and this run evaluates {', '.join(plan)}"
        )
    prompts = list(chain.from_iterable(plan.values()))
    labels.require_prompts(prompts, this_run)
    checks: list[LabelCheck] = []
    for name, own in plan.items():
        stored = candidate.known(own, task.store)
        records: list[Record] = []
        missing = 0
        for prompt in own:
            for sample, key in enumerate(candidate.keys(prompt)):
                if key in stored:
                    unjudged = Invalid(Reason.NO_LABEL)
                    records.append(Record(prompt, sample, stored[key], unjudged))
                else:
                    missing += 1
        # Labels without an answer may be of those that are still to be generated.
        matched, unmatched = labels.match(name, records)
        checks += matched.checks(_judged(task, name, matched.only(records)))
        is_foreign = any(
            row.draw and row.draw.candidate != candidate.name for row in unmatched
        )
        if len(unmatched) > missing or is_foreign:
            labels.require_none(unmatched, this_run)
    require_agreement(labels.name, checks)
