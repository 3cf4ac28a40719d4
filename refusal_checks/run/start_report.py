"""What a run prints and writes before it starts: the work to do, and where engines run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from pydantic_core import to_jsonable_python

from refusal_checks.core.text import count
from refusal_checks.engines.placement import Placement
from refusal_checks.gates import power
from refusal_checks.models.model_names import Model
from refusal_checks.results.execution import Execution
from refusal_checks.run.plan import MissingWork, Task, missing_work
from refusal_checks.run.run_session import RunSession


class StartReport(NamedTuple):
    """What is known when a run starts.

    Attributes:
        execution: what is known of it before anything is asked.
        says: lines for the user.
        notes: lines for the summary.
        unverified: a reservation about what servers said too long ago; empty if it decides nothing.
    """

    execution: Execution
    says: Sequence[str]
    notes: Sequence[str]
    unverified: str


def report_start(session: RunSession) -> StartReport:
    """Count the answers and verdicts that are missing, and place the engines needed for them."""
    task, inputs, store = session.task, session.inputs, session.task.store
    todo = missing_work(task)
    todos = [todo, *session.checks.missing_work()]
    left = "no gate is selected: only the judge is checked"
    if task.plan:
        prompts = count(sum(map(len, task.plan.values())), "prompt")
        left = (
            f"{prompts} of {', '.join(task.plan)}: {count(todo.answers, 'answer')} to generate, "
            f"at most {count(todo.verdicts, 'verdict')} to request"
        )
    says = [f"{left}; run folder {session.folder}"]
    weakest = power.describe_weakest(inputs.gates, task.plan, inputs.rules.level)
    if weakest:
        says.append(weakest)
    notes = []
    if store.changed:
        notes.append(
            f"the store {store.path}: {store.changed} of its rows were damaged or edited by hand, "
            "and were asked for again"
        )
    # No engine starts for a model of which everything is stored.
    models: list[Model] = [inputs.candidate] if todo.answers else []
    asked = frozenset[str]().union(*(each.judges for each in todos))
    models += [judge.model for judge in inputs.judges if judge.name in asked]
    placement = session.servers.place(models)
    if placement.places:
        says.append(f"placement {placement.kind}: {placement.why}")
    execution = _execution(task, todo, placement)
    used = frozenset[str]().union(*(each.reused for each in todos))
    if execution.reused:
        used |= {task.candidate.name}
    unverified = ""
    names = " and ".join(sorted(used & session.unverified))
    if names:
        unverified = (
            f"ask anew with --fresh: what {names} said earlier decides, and a URL does not say "
            "which weights it serves"
        )
    return StartReport(execution, says, notes, unverified)


def _execution(task: Task, todo: MissingWork, placement: Placement) -> Execution:
    keys: set[str] = set()
    for prompts in task.plan.values():
        for prompt in prompts:
            keys.update(task.candidate.keys(prompt))
    stored_from = stored_until = ""
    written = task.store.time_span(keys)
    if written:
        stored_from, stored_until = map(_day, written)
    return Execution(
        answers=todo.answers,
        verdicts=todo.verdicts,
        reused=len(keys) - todo.answers,
        stored_from=stored_from,
        stored_until=stored_until,
        placement=to_jsonable_python(placement),
    )


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
