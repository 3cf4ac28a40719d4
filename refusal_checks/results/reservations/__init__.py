"""Reservations about a run whose gates all passed, a module for each subject.

Each reservation is one line: what to do or what was not proven, and why. ``reservations`` sets
their order. Its kind answers one question: does the yes rest on something that was not proven?
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from refusal_checks.core.text import clean
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS
from refusal_checks.results.reservations import (
    answers,
    bounds,
    earlier,
    judging,
    labels,
    passes,
)
from refusal_checks.results.reservations.reservation import GatedRun, Reservation
from refusal_checks.results.summary import RunSummary


def reservations(
    summary: RunSummary, verdicts: Sequence[Verdict]
) -> Iterator[Reservation]:
    """Yield the reservations about a run, from its summary, with those who accepted them.

    An acceptance that has expired counts no more, and the text says so.

    Args:
        verdicts: those that decided something.
    """
    accepted = summary.manifest.accepted
    day = summary.manifest.started[:10]
    for reservation in _all(summary, verdicts):
        acceptance = accepted.get(reservation.id)
        if acceptance is None or reservation.kind == "note":
            yield reservation
        elif day <= acceptance.until.isoformat():
            terms = clean(f"{acceptance.in_words}: {acceptance.reason}", 200)
            yield replace(reservation, accepted=terms)
        else:
            expired = clean(f"accepted {acceptance.in_words}", 100)
            text = f"{reservation.text} (no longer {expired})"
            yield replace(reservation, text=text)


def _all(summary: RunSummary, verdicts: Sequence[Verdict]) -> Iterator[Reservation]:
    own = [
        verdict
        for verdict in verdicts
        if METRICS[verdict.gate.metric].group != "judging"
    ]
    run = GatedRun(summary, verdicts, own)
    yield from passes.too_close_to_call(run)
    yield from answers.other_models(run)
    yield from bounds.doubtful_bounds(run)
    yield from judging.checked_judges(run)
    yield from labels.doubtful_labels(run)
    yield from judging.other_judges(run)
    yield from bounds.sets_of_bounds(run)
    yield from bounds.gates_that_cannot_fail(run)
    yield from passes.confidence(run)
    yield from judging.unjudged_answers(run)
    yield from answers.parts_of_benchmarks(run)
    for name, figures in run.gated.items():
        yield from answers.peculiar_answers(name, figures)
    yield from answers.answers_not_seen_whole(run)
    yield from labels.labels_of_answers(run)
    yield from bounds.benchmarks_without_bounds(run)
    yield from bounds.untested_metrics(run)
    yield from passes.groups_apart(run)
    yield from passes.worst_answers(run)
    yield from answers.stopped_answers(run)
    yield from earlier.baseline(run)
    yield from earlier.another_seed(run)
