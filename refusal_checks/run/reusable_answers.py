"""Which stored answers and verdicts a run may use.

A URL does not say which weights it serves. So what an attached server said serves the run that
asked and its restart after an interruption; a later run asks anew, unless ``store.reuse`` or
``store.only`` says otherwise. What engines of our own said is reused, since its keys have the
weights.

The keys of what is stored of a model have a generation (see ``Store.begin_generation``). A run that
has decided all its gates ends the generations of its servers, and the next run begins new ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain

from refusal_checks.config.tables import StoreTable
from refusal_checks.judges.judge import Judge
from refusal_checks.models.candidates import ServedCandidate
from refusal_checks.run.plan import Task

DAY = 24 * 3600
"""Seconds after which a restart says that a server may have changed."""


def choose_generations(
    task: Task,
    table: StoreTable,
    *,
    are_labelled: bool = False,
) -> frozenset[str]:
    """Choose the generations that a run uses.

    Args:
        table: what the run file says of the store.
        are_labelled: people labelled answers that were stored, so those decide.

    Returns:
        Names of the attached models that may have other weights than when they were asked: the run
        may use what finished runs asked for, or what was asked for over a day ago.
    """
    store = task.store
    if table.fresh:
        for identity in {model.stored_model for model in _models(task)}:
            store.begin_generation(identity)
    earlier = set()
    for model in _attached(task):
        stored = store.generation(model.stored_model)
        is_old = 0 < stored.began < time.time() - DAY
        # Open: the run that asked has not decided everything, and this one continues it.
        is_kept = stored.is_open or are_labelled
        if table.only or (
            stored.id and ((table.reuse and not stored.is_open) or (is_kept and is_old))
        ):
            earlier.add(model.name)
        elif not (stored.id and is_kept):
            store.begin_generation(model.stored_model)
    use_generations(task)
    return frozenset(earlier)


def use_generations(task: Task) -> None:
    """Have judges and candidate use the current generations of their models."""
    for model in _models(task):
        model.generation = task.store.generation(model.stored_model).id


def end_generations(task: Task) -> None:
    """Have the next run ask the servers anew."""
    for model in _attached(task):
        task.store.end_generation(model.stored_model)


def _attached(task: Task) -> Iterator[Judge | ServedCandidate]:
    return (model for model in _models(task) if model.is_attached)


def _models(task: Task) -> Iterator[Judge | ServedCandidate]:
    if isinstance(task.candidate, ServedCandidate):
        yield task.candidate
    yield from dict.fromkeys(chain.from_iterable(task.judges.values()))
