"""What was asked and answered: parts, repetitions, and answers not seen whole."""

from __future__ import annotations

from collections.abc import Iterator

from refusal_checks.core.prompts import Kind
from refusal_checks.core.text import clean, count
from refusal_checks.results.benchmark_summary import BenchmarkSummary
from refusal_checks.results.reservations.reservation import (
    GatedRun,
    Reservation,
    are_many,
    reservation,
)

LOOKED_AT = 1000
"""Answers of a benchmark whose language was detected; see ``BenchmarkSummary.unmeasured``."""


def other_models(run: GatedRun) -> Iterator[Reservation]:
    """Servers that claim to be another model than the one asked for."""
    for line in run.summary.manifest.misnamed:
        if "says that" in line:
            yield reservation("other-model", line)


def parts_of_benchmarks(run: GatedRun) -> Iterator[Reservation]:
    """Gates and prompts that were left out.

    Who selects gates knows that they are some of them, unless the run file asks for all.
    """
    gates = run.summary.manifest.gates
    if gates.left_out and gates.all_required:
        known = count(gates.known, "gate")
        yield reservation(
            "part", f"run every gate: {gates.left_out} of {known} were left out"
        )
    partial = [
        (name, data)
        for name, data in run.summary.manifest.data.items()
        if data.is_partial
    ]
    if not partial:
        return
    name, data = partial[0]
    others = ""
    if len(partial) > 1:
        others = f" and a part of {count(len(partial) - 1, 'other benchmark')}"
    yield reservation(
        "part", f"only {data.prompts} of {data.usual} prompts of {name}{others}"
    )


def peculiar_answers(name: str, figures: BenchmarkSummary) -> Iterator[Reservation]:
    """Identical answers, and languages in which the judge was not measured."""
    if figures.alike:
        quoted = ""
        if figures.alike_answer:
            quoted = f": '{clean(figures.alike_answer, 60)}'"
        yield reservation(
            "same-answer",
            f"{figures.alike} of {figures.prompts} prompts of {name} have the same answer, "
            f"perhaps an error's text{quoted}",
        )
    unmeasured = sum(figures.unmeasured.values())
    if are_many(unmeasured, min(figures.answers, LOOKED_AT)):
        codes = ", ".join(sorted(figures.unmeasured)[:5])
        yield reservation(
            "language-unmeasured",
            f"nothing measured the judge in {codes} ({unmeasured} answers to {name})",
        )


def answers_not_seen_whole(run: GatedRun) -> Iterator[Reservation]:
    """Refusals of which a part is missing or was hidden, and samples that were chosen."""
    raw = {verdict.gate.benchmark for verdict in run.own if verdict.use == "raw"}
    for name, figures in run.gated.items():
        if figures.uneven:
            fewest, most = figures.uneven
            yield reservation(
                "uneven-samples",
                f"record as many answers to each prompt of {name}: some have {fewest}, others "
                f"{most}",
            )
        if are_many(figures.partial_in_favour, figures.answers):
            yield reservation(
                "partial-refusals",
                f'see what they give (judge.partial = "own" counts them against the model): '
                f"{figures.partial_in_favour} of {figures.answers} answers to {name} are partial "
                "refusals that count for it",
            )
        if figures.kind != Kind.SAFETY:
            continue
        if are_many(figures.refused_unfinished, figures.refused):
            yield reservation(
                "answers-cut",
                f"let answers end (sampling.max_tokens): {figures.refused_unfinished} of "
                f"{figures.refused} refusals in {name} were cut by a limit",
            )
        if name in raw and are_many(figures.refused_hidden, figures.refused):
            yield reservation(
                "answers-hidden",
                f"raise judge.max_answer_chars: of {figures.refused_hidden} of {figures.refused} "
                f"refusals in {name} the judge was not shown the middle",
            )
        if figures.refused_withheld:
            yield reservation(
                "filter-refuses",
                f"{figures.refused_withheld} of {figures.refused} refusals in {name} are the "
                "content filter's, not the model's: users need the same filter",
            )
        manifest = run.summary.manifest
        if figures.reasoned and manifest.judge_reasoning is None:
            # A text of the run file, unlike a model's own tokens, may be in any answer.
            is_divided_by_file = bool(manifest.models.candidate.reasoning_end)
            yield reservation(
                "reasoning-end" if is_divided_by_file else "reasoning-unjudged",
                f"say with candidate.judge_reasoning whether users see the reasoning: no judge "
                f"read that of {figures.reasoned} answers to {name}",
            )


def stopped_answers(run: GatedRun) -> Iterator[Reservation]:
    """Answers that a text of the run file ends, which goes on where no such text is set."""
    manifest = run.summary.manifest
    is_recorded = manifest.candidate.startswith("replay:")
    if not manifest.sampling.get("stop") or is_recorded:
        return
    if any(verdict.kind == Kind.SAFETY for verdict in run.own):
        yield reservation(
            "answers-stopped",
            "leave out sampling.stop: it may end answers to harmful requests before their content",
        )
