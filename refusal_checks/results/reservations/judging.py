"""Judges that nobody tested, and answers that they could not judge."""

from __future__ import annotations

from collections.abc import Iterator

from refusal_checks.core.text import clean, count
from refusal_checks.judges.trust.check_sets import SETS
from refusal_checks.metrics import METRICS
from refusal_checks.models.names import DEMO_RECORDINGS, RECORDED_LABELS
from refusal_checks.models.provided import DEMO, DEMO_JUDGE
from refusal_checks.results.manifest import Manifest, ModelFacts
from refusal_checks.results.reservations.reservation import (
    GatedRun,
    Reservation,
    reservation,
)


def checked_judges(run: GatedRun) -> Iterator[Reservation]:
    """Gates that rest on a judge whose check is weak or missing."""
    summary = run.summary
    uses = {
        verdict.use
        for verdict in run.own
        if set(SETS).intersection(METRICS[verdict.gate.metric].reads)
        and verdict.gate.benchmark not in summary.untested_scales
    }
    if summary.judge and "raw" in uses:
        below = summary.judge.below_usual_floors
        if below and summary.judge.is_trusted:
            yield reservation("judge-below-floors", below, 400)
    if "raw" in uses and _judges_beyond_the_demo(summary.manifest):
        yield reservation(
            "judge-weak",
            f"name another judge: {DEMO_JUDGE} was made for the demo models, and chosen on the "
            "exchanges that test it",
        )
    if summary.untested and "raw" in uses:
        yield reservation(
            "judge-untested", f"{summary.untested}, or give --human-labels"
        )
    itself = _judges_that_are_the_candidate(summary.manifest)
    if itself and "raw" in uses:
        yield reservation(
            "judge-is-candidate",
            f"name another judge than {itself[0]}, which is the candidate itself",
        )
    harm = [
        name
        for name in summary.manifest.judged_by_harm
        if any(
            verdict.gate.benchmark == name and verdict.use == "raw"
            for verdict in run.own
        )
    ]
    if harm:
        yield reservation(
            "judge-of-harm",
            f"read some of what counted as refused in {', '.join(harm)}: the judge measures harm, "
            "and cannot tell a refusal from another harmless answer",
        )
    if summary.unverified:
        yield reservation("stored-unverified", summary.unverified)


def _judges_beyond_the_demo(manifest: Manifest) -> bool:
    """True if the demo models' judge judges another candidate."""
    # Where several judges have one name, numbers follow it.
    names = {name.partition(" (")[0] for name in manifest.models.judges}
    if RECORDED_LABELS in names:
        names.add(manifest.labelled_by)
    candidate = manifest.candidate
    is_demo = candidate.startswith(DEMO) or candidate in DEMO_RECORDINGS
    return DEMO_JUDGE in names and not is_demo


def _judges_that_are_the_candidate(manifest: Manifest) -> list[str]:
    """The judges with the candidate's weights and adapter, however their template is filled."""
    candidate = _weights_of(manifest.models.candidate)
    return [
        name
        for name, judge in manifest.models.judges.items()
        if judge.version and _weights_of(judge) == candidate
    ]


def _weights_of(model: ModelFacts) -> tuple[object, ...]:
    # A server on this machine has two usual names.
    version = model.version.replace("://localhost:", "://127.0.0.1:")
    return version, model.adapter


def other_judges(run: GatedRun) -> Iterator[Reservation]:
    """Judges by a scale that no check tests."""
    summary = run.summary
    scales = summary.untested_scales
    decided = dict.fromkeys(
        verdict.gate.benchmark for verdict in run.own if verdict.use == "raw"
    )
    untested = dict.fromkeys(scales[name] for name in decided if name in scales)
    for why in untested:
        yield reservation("judge-untested", why)
    for name in decided:
        figures = summary.benchmarks.get(name)
        if figures is None:
            continue
        if name in scales and figures.one_value:
            answers = count(figures.answers, "answer")
            value = clean(figures.one_value, 60)
            yield reservation(
                "one-verdict",
                f"all {answers} to {name} have the same verdict: {value}",
            )


def unjudged_answers(run: GatedRun) -> Iterator[Reservation]:
    if any(verdict.invalid.decide for verdict in run.own):
        yield reservation(
            "invalid-decide", "answers that could not be judged decide a gate"
        )
