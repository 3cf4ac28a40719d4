"""What a run says and writes before it starts: the work that is left, and where engines run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from refusal_checks.core.text import count
from refusal_checks.gates import power
from refusal_checks.models.model_names import Model
from refusal_checks.results.manifest import Manifest
from refusal_checks.run.plan import missing_work
from refusal_checks.run.provenance import add_effort
from refusal_checks.run.run_session import RunSession


class StartReport(NamedTuple):
    """What is known when a run starts.

    Attributes:
        says: lines for the user.
        notes: lines for the summary.
        unverified: a reservation about what servers said too long ago; empty if it decides nothing.
    """

    manifest: Manifest
    says: Sequence[str]
    notes: Sequence[str]
    unverified: str


def report_start(session: RunSession) -> StartReport:
    """Count the answers and verdicts that are missing, and place the engines needed for them."""
    work, inputs, store = session.work, session.inputs, session.work.store
    todo = missing_work(work)
    todos = [todo, *session.checks.missing_work()]
    left = "no gate is selected: only the judge is checked"
    if work.plan:
        prompts = count(sum(map(len, work.plan.values())), "prompt")
        left = (
            f"{prompts} of {', '.join(work.plan)}: {count(todo.answers, 'answer')} to generate, "
            f"{count(todo.verdicts, 'verdict')} to ask for at most"
        )
    says = [f"{left}; run folder {session.folder}"]
    weakest = power.describe_weakest(inputs.gates, work.plan, inputs.rules.level)
    if weakest:
        says.append(weakest)
    notes = []
    if store.changed:
        notes.append(
            f"the store {store.path}: {store.changed} of its rows are not as they were written "
            "and were asked for again: damaged, or edited by hand"
        )
    models: list[Model] = [inputs.candidate] if todo.answers else []
    asked = frozenset[str]().union(*(each.judges for each in todos))
    models += [judge.model for judge in inputs.judges if judge.name in asked]
    placement = session.servers.place(models)
    if placement.places:
        says.append(f"placement {placement.kind}: {placement.why}")
    manifest = add_effort(session.manifest, placement, work, todo, models)
    used = frozenset[str]().union(*(each.reused for each in todos))
    if manifest.asked and manifest.asked.reused:
        used |= {work.candidate.name}
    unverified = ""
    names = " and ".join(sorted(used & session.unverified))
    if names:
        unverified = (
            f"ask anew with --fresh: what {names} said earlier decides, and a URL does not say "
            "which weights it serves"
        )
    return StartReport(manifest, says, notes, unverified)
