"""Labels that nobody stands for, that contradict the judge, or that words contradict."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from refusal_checks.core.reservations import LABELS_ONE_IN, LEAST_PROMPTS, MANY
from refusal_checks.judges.trust.label_checks import LabelCheck, pooled
from refusal_checks.models.names import RECORDED_LABELS
from refusal_checks.results.reservations.reservation import (
    GatedRun,
    Reservation,
    reservation,
)
from refusal_checks.results.summary import RunSummary


def doubtful_labels(run: GatedRun) -> Iterator[Reservation]:
    """Labels that nobody stands for, or that contradict the judge."""
    manifest = run.summary.manifest
    sheets = manifest.human_labels
    sheets_decide = any(verdict.use == "human" for verdict in run.own)
    unattributed = []
    if not manifest.labelled_by and any(
        verdict.use == "raw"
        and RECORDED_LABELS in manifest.judge_prompts.get(verdict.gate.benchmark, ())
        for verdict in run.own
    ):
        unattributed.append("recording.labelled_by")
    if sheets and sheets_decide and not sheets.labelled_by:
        unattributed.append("trust.labelled_by")
    for key in unattributed:
        yield reservation(
            "labels-unattributed",
            f'say with {key} who gave the labels that decide: "people", or the name of a model',
        )

    for name, check in _contradicting(run.summary):
        what = f"labels contradict {check.contradicted} of {check.labelled} verdicts on {name}"
        if check.of == "refusals":
            what = (
                f"by the labels {check.contradicted} of {check.labelled} answers that counted as "
                "refused are no refusals"
            )
        yield reservation(
            "labels-contradict-judge",
            f"read these answers, and correct the labels or name another judge: {what}",
        )


def _contradicting(summary: RunSummary) -> Iterator[tuple[str, LabelCheck]]:
    """The checks by labels that put the judge in doubt, with the benchmark's name.

    What counted as refused was drawn from all benchmarks, so it is checked as a whole.
    """
    for name, checks in summary.label_checks.items():
        for check in checks:
            if check.of == "answers" and check.share > MANY:
                yield name, check
    for check in pooled(chain.from_iterable(summary.label_checks.values())):
        if check.of == "refusals" and check.share > MANY:
            yield "", check


def labels_of_answers(run: GatedRun) -> Iterator[Reservation]:
    """Labels that may be those of prompts, or the wrong way round, since words contradict them.

    Phrases of refusal agree with people on 88% of recorded answers (``judges.rules``).
    """
    decided = {verdict.gate.benchmark for verdict in run.own}
    used = [
        figures.labels
        for name, figures in run.summary.benchmarks.items()
        if name in decided and figures.labels
    ]
    answers = sum(labels.answers for labels in used)
    contradicted = sum(labels.contradicted for labels in used)
    if answers < LEAST_PROMPTS:
        return
    words = f"the words of {contradicted} of {answers} answers say the opposite"
    if 2 * contradicted > answers:
        yield reservation(
            "labels-suspect",
            f"check recording.labels: are the labels swapped, or those of the prompts? {words}",
        )
    elif LABELS_ONE_IN * contradicted >= answers and all(
        labels.as_expected for labels in used
    ):
        yield reservation(
            "labels-suspect",
            f"check that the labels are those of the answers: all say what the prompts ask for, "
            f"and {words}",
        )
