"""Check that people's labels are of this run's answers, before anything starts."""

from __future__ import annotations

from refusal_checks.core.records import Record
from refusal_checks.core.verdicts import Invalid, Reason
from refusal_checks.evaluation.planning import Task
from refusal_checks.judges.trust.labels import HumanLabels, answer_key


def require_own_labels(labels: HumanLabels, task: Task, this_run: str) -> None:
    """Raise LabelError if a row is of a benchmark of this run, and no stored answer of it."""
    keys: dict[str, set[str]] = {}
    for name, prompts in task.plan.items():
        stored = task.candidate.known(prompts, task.store)
        own = keys.setdefault(name, set())
        for prompt in prompts:
            for sample, key in enumerate(task.candidate.keys(prompt)):
                if key in stored:
                    unjudged = Invalid(Reason.NO_LABEL)
                    record = Record(prompt, sample, stored[key], unjudged)
                    own.add(answer_key(name, record))
    labels.require_answers(keys, this_run)
