"""What to say about a run beside its gates: a few remarks for everybody, more for who looks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from refusal_checks.core.labelling import by_whom
from refusal_checks.core.prompts import Kind
from refusal_checks.core.text import clean, count
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges.trust.label_checks import pooled
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.worst_case import worst_of_k_rate
from refusal_checks.models.names import RECORDED_LABELS
from refusal_checks.reports.wording.release import release_decision
from refusal_checks.reports.wording.verdicts import (
    moves,
    sentence,
    short,
    waiver,
    worst_first,
)
from refusal_checks.results.summary import RunSummary

MOST_NAMED = 4
"""Most benchmarks that the remark on worst answers names."""


class Example(NamedTuple):
    """A prompt that counts against a gate, as untrusted text, and the number of others."""

    id: str
    prompt: str
    more: int


def wrong(run: RunSummary) -> Iterator[tuple[str, Example | None]]:
    """What is wrong, worst first, each with a prompt that shows it; no prompt is shown twice."""
    shown: set[str] = set()
    for verdict in worst_first(run.verdicts.values()):
        unseen = [prompt for prompt in verdict.offenders if prompt.id not in shown]
        example = None
        if unseen:
            worst = unseen[0]
            shown.add(worst.id)
            others = max(0, verdict.against.prompts - 1)
            example = Example(worst.id, worst.prompt, others)
        yield _full_sentence(verdict), example


def remarks(run: RunSummary) -> Iterator[str]:
    """What everybody should know who reads the run's figures."""
    for text in (*run.manifest.misnamed, *run.manifest.left_out):
        yield clean(text)
    for text in dict.fromkeys(run.notes):
        yield clean(f"note: {text}", 300)
    yield from _unchecked_margins(run)
    yield from _judge_failures(run)
    yield from _agreement(run)
    worst = "; ".join(_worst_answers(run))
    if worst:
        yield worst
    for name, summary in run.benchmarks.items() if run.unfinished else ():
        judged = f"{summary.prompts} of {summary.planned} prompts"
        yield f"{clean(name, 60)}: {judged} judged so far"
    earlier = set()
    for verdict in run.verdicts.values():
        compared = verdict.comparison
        if compared:
            name = compared.name or short(compared.candidate)
            earlier.add((clean(name, 60), clean(compared.started[:10], 30)))
        if compared and verdict.passed and _is_worse(verdict):
            yield _full_sentence(verdict)
    if earlier:
        named = " and ".join(f"{name} of {day}" for name, day in sorted(earlier))
        yield f"change: in points since {named}"


def more_remarks(run: RunSummary) -> Iterator[str]:
    """What explains the figures to somebody who looks closer."""
    unneeded = release_decision(run).unneeded
    if unneeded:
        yield f"remove from [accept] what this run does not need: {', '.join(unneeded)}"
    if run.judge_means:
        yield clean(run.judge_means, 500)
    for judge in run.manifest.models.judges.values():
        if judge.remark and judge.remark not in run.notes:
            yield judge.remark
    yield from _labels(run)
    yield from _of_benchmarks(run)


def _labels(run: RunSummary) -> Iterator[str]:
    """Who gave the labels of a run's answers, and what they say of the judge's verdicts."""
    manifest = run.manifest
    if any(RECORDED_LABELS in judges for judges in manifest.judge_prompts.values()):
        yield f"recorded labels {by_whom(manifest.labelled_by)} are the judge"
    if not manifest.human_labels:
        return
    whom = by_whom(manifest.human_labels.labelled_by)
    for check in pooled(chain.from_iterable(run.label_checks.values())):
        if check.of == "refusals":
            agreed = check.labelled - check.contradicted
            share = check.agreement(manifest.confidence)
            skipped = ""
            if check.skipped:
                skipped = f"; do not skip rows: {check.skipped} are blank"
            yield (
                f"labels {whom} of answers that counted as refused: {agreed} of {check.labelled} "
                f"are refusals ({share:.1%}; of the other answers they say nothing){skipped}"
            )
        else:
            yield (
                f"labels {whom} contradict the judge in {check.contradicted} of "
                f"{check.labelled} answers ({check.share:.1%})"
            )


def _agreement(run: RunSummary) -> Iterator[str]:
    """How far the judge agrees with people's labels in a recording, and where least."""
    for type_, found in run.agreement.items():
        figures = [
            f"{name} {figure:{form}}"
            for name, figure, form in (
                ("kappa", found.kappa, ".2f"),
                ("sensitivity", found.sensitivity, ".1%"),
                ("specificity", found.specificity, ".1%"),
            )
            if figure
        ]
        answers = count(found.n, "answer")
        what = f"the judge against people's labels of {answers}"
        if type_:
            what = f"it errs most on {clean(type_, 60)}, {answers}"
        yield f"{what}: {', '.join(figures)}"


def _judge_failures(run: RunSummary) -> Iterator[str]:
    for check in run.judge.checks if run.judge else ():
        if not check.passed:
            yield clean(f"the judge failed its check: {check.headline}", 500)


def _is_worse(verdict: Verdict) -> bool:
    """True if the whole benchmark is significantly worse than in the earlier run."""
    gate, compared = verdict.gate, verdict.comparison
    if compared is None or gate.group is not None or verdict.kind not in set(Kind):
        return False
    guard = METRICS[gate.metric].guard(Kind(verdict.kind))
    fell, rose = compared.change.upper < 0, compared.change.lower > 0
    return (guard == "min" and fell) or (guard == "max" and rose)


def _full_sentence(verdict: Verdict) -> str:
    """A gate's sentence with its benchmark, the number of prompts that moved, and its waiver."""
    sentences = [sentence(verdict)]
    compared = verdict.comparison
    if compared and (compared.lost or compared.gained):
        sentences.append(_as_sentence(moves(verdict.gate, compared)))
    for text in waiver(verdict):
        sentences.append(_as_sentence(text))
    return f"{clean(verdict.gate.benchmark, 60)}: {' '.join(sentences)}"


def _as_sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _unchecked_margins(run: RunSummary) -> Iterator[str]:
    """Say which margins had no earlier run, and which option gives one."""
    skipped = [verdict.gate for verdict in run.verdicts.values() if verdict.skipped]
    if skipped:
        names = ", ".join(dict.fromkeys(gate.benchmark for gate in skipped))
        gates = count(len(skipped), "gate")
        yield (
            f"give --baseline for {names}: max_drop and max_rise of {gates} were not "
            "checked"
        )


def _of_benchmarks(run: RunSummary) -> Iterator[str]:
    """Answers without a verdict, partial refusals, and answers that were too long."""
    for name, summary in run.benchmarks.items():
        if summary.invalid:
            invalid = ", ".join(
                f"{answers} {reason}" for reason, answers in summary.invalid.items()
            )
            yield f"invalid in {name}: {invalid} (of {summary.answers} answers)"
        if summary.partial:
            counted = run.manifest.partial_refusals
            if counted == "own":
                counted = "compliance" if summary.kind == Kind.SAFETY else "refusal"
            answers = count(summary.answers, "answer")
            yield (
                f"{clean(name, 60)}: {summary.partial} of {answers} are partial refusals, and "
                f"count as {counted}s"
            )
        if summary.cut:
            yield (
                f"{name}: {summary.cut} of {summary.answers} answers were too long for the judge "
                "to see in full"
            )


def _worst_answers(run: RunSummary) -> Iterator[str]:
    """What the worst of several answers to a prompt did, the worst benchmarks first."""
    ways = {Kind.SAFETY.value: "every time", Kind.SANITY.value: "at least once"}
    for kind, how in ways.items():
        found = [
            (benchmark.figures[worst_of_k_rate.name].value, name)
            for name, benchmark in run.benchmarks.items()
            if benchmark.kind == kind
            and benchmark.answers > benchmark.prompts
            and worst_of_k_rate.name in benchmark.figures
        ]
        found.sort(reverse=kind == Kind.SANITY)
        shares = [
            f"{clean(name, 60)} {share:.1%}" for share, name in found[:MOST_NAMED]
        ]
        if len(found) > MOST_NAMED:
            shares.append(f"{len(found) - MOST_NAMED} more")
        if shares:
            yield f"refused {how}: {', '.join(shares)}"
