"""The main remarks on a run: what is wrong, an answer that shows it, what else to know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from refusal_checks.core.labelling import by_whom
from refusal_checks.core.prompts import Kind
from refusal_checks.core.text import clean, count
from refusal_checks.gates import sentences
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.sentences import moves, sentence, short, worst_first
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges.trust.label_checks import pooled
from refusal_checks.metrics import METRICS, rejection_rate
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.metrics.worst_case import worst_of_k_rate
from refusal_checks.models.names import RECORDED_LABELS
from refusal_checks.reports.explain import select
from refusal_checks.results.release import release_decision
from refusal_checks.results.summary import RunSummary


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


def weighty(run: RunSummary) -> Iterator[str]:
    """What a reader should know even about a run that may ship."""
    for note in run.notes:
        yield clean(f"note: {note}", 300)
    yield from _judge_failures(run)
    if run.judge_means:
        yield clean(run.judge_means, 500)
    for text in of_labels(run):
        yield clean(text, 300)
    yield from _differences(run)
    for verdict in run.verdicts.values():
        if verdict.passed and (
            verdict.warns or verdict.invalid.decide or _is_worse(verdict)
        ):
            yield _full_sentence(verdict)


def of_labels(run: RunSummary) -> Iterator[str]:
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
                skipped = f"; {check.skipped} were left out above a labelled one"
            yield (
                f"labels {whom} of answers that counted as refused: {agreed} of {check.labelled} "
                f"are refusals ({share:.1%}; of the other answers they say nothing){skipped}"
            )
        else:
            yield (
                f"labels {whom} contradict the judge in {check.contradicted} of "
                f"{check.labelled} answers ({check.share:.1%})"
            )


def of_agreement(run: RunSummary) -> Iterator[str]:
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
        if check.mark == "weak":  # it is trusted, but not with such answers
            yield clean(f"the judge misreads a kind of answers: {check.headline}", 500)
        elif not check.passed:
            yield clean(f"the judge failed its check: {check.headline}", 500)


def _differences(run: RunSummary) -> Iterator[str]:
    """Why benchmarks are not comparable with the earlier run, each reason once."""
    names_by_difference: dict[str, list[str]] = {}
    for verdict in run.verdicts.values():
        if verdict.comparison:
            name = clean(verdict.gate.benchmark, 60)
            for difference in verdict.comparison.differences:
                names = names_by_difference.setdefault(difference, [])
                if name not in names:
                    names.append(name)
    for difference, names in names_by_difference.items():
        yield f"{', '.join(names)}: not comparable: {clean(difference)}"


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
    if verdict.comparison:
        moved = moves(verdict.gate, verdict.comparison)
        if moved[0].isdigit():
            sentences.append(_as_sentence(moved))
    for text in select(verdict, "waiver"):
        sentences.append(_as_sentence(text))
    return f"{clean(verdict.gate.benchmark, 60)}: {' '.join(sentences)}"


def _as_sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def lighter(run: RunSummary) -> Iterator[str]:
    """Remarks that explain the table or are worth a look."""
    earlier = set()
    for verdict in run.verdicts.values():
        compared = verdict.comparison
        if compared:
            name = compared.name or short(compared.candidate)
            earlier.add((clean(name, 60), clean(compared.started[:10], 30)))
    if earlier:
        named = " and ".join(f"{name} of {day}" for name, day in sorted(earlier))
        yield f"change: in points since {named}"
    if any(sentences.mark(verdict).endswith("?") for verdict in run.verdicts.values()):
        yield "?: too few prompts to be sure of the outcome"
    yield from unneeded_acceptances(run)
    yield from unchecked_margins(run)
    yield from of_benchmarks(run)


def unneeded_acceptances(run: RunSummary) -> Iterator[str]:
    """Say which reservations the run file accepts although this run does not have them."""
    unneeded = release_decision(run).unneeded
    if unneeded:
        yield f"note: [accept] has more than this run needs: {', '.join(unneeded)}"


def unchecked_margins(run: RunSummary) -> Iterator[str]:
    """Say which margins had no earlier run, and which option gives one."""
    skipped = [verdict.gate for verdict in run.verdicts.values() if verdict.skipped]
    since_last = [gate for gate in skipped if not gate.is_total]
    since_anchor = [gate for gate in skipped if gate.is_total]
    if since_last:
        margins = "max_drop and max_rise"
        yield _unchecked("give --baseline", margins, since_last)
    if since_anchor:
        remedy = "accept an anchor (baseline accept --anchor)"
        margins = "max_total_drop and max_total_rise"
        yield _unchecked(remedy, margins, since_anchor)


def _unchecked(remedy: str, margins: str, gates: Sequence[Gate]) -> str:
    names = ", ".join(dict.fromkeys(gate.benchmark for gate in gates))
    checked = f"{margins} of {count(len(gates), 'gate')} were not checked"
    return f"{remedy} for {names}: {checked}"


def of_benchmarks(run: RunSummary) -> Iterator[str]:
    """Answers without a verdict, prompts not evaluated, requests to judges."""
    for name, summary in run.benchmarks.items():
        if summary.invalid:
            reasons = ", ".join(
                f"{answers} {reason}" for reason, answers in summary.invalid.items()
            )
            yield f"invalid in {name}: {reasons} (of {summary.answers} answers)"
        yield from partial_refusals(name, run)
        if summary.cut:
            yield (
                f"{name}: the judge did not see all of {summary.cut} of {summary.answers} answers, "
                "which were too long for it"
            )
        if run.unfinished:
            yield f"{name}: {summary.prompts} of {summary.planned} prompts judged so far"
    yield from worst_answers(run)


def beside_the_gates(run: RunSummary) -> list[str]:
    """Remarks for the page that none of its parts shows."""
    lines = [*run.manifest.misnamed, *run.manifest.left_out, *run.notes]
    lines += unneeded_acceptances(run)
    lines += of_judges(run)
    lines += of_agreement(run)
    lines += of_labels(run)
    for name in run.benchmarks:
        lines += partial_refusals(name, run)
    refused = refused_in_all(run)
    if refused:
        lines.append(refused)
    lines += worst_answers(run)
    return lines


def refused_in_all(run: RunSummary, most: int | None = None) -> str:
    """Say how many prompts were refused in all of several answers; empty if none had several.

    It covers gated benchmarks of prompts that must be refused, the lowest share first.

    Args:
        most: how many benchmarks are named; None for all.
    """
    gated = {verdict.gate.benchmark for verdict in run.verdicts.values()}
    worst: dict[str, Estimate] = {}
    for name, benchmark in run.benchmarks.items():
        is_of_several = benchmark.answers > benchmark.prompts
        figure = benchmark.figures.get(worst_of_k_rate.name)
        if figure and is_of_several and benchmark.kind == Kind.SAFETY and name in gated:
            worst[name] = figure
    names = sorted(worst, key=lambda name: worst[name].value)
    shares = [f"{clean(name, 60)} {worst[name].value:.1%}" for name in names[:most]]
    if len(names) > len(shares):
        shares.append(f"{len(names) - len(shares)} more")
    if not shares:
        return ""
    return f"prompts refused in all answers (worst_of_k_rate): {', '.join(shares)}"


def worst_answers(run: RunSummary) -> Iterator[str]:
    """Other benchmarks whose worst of several answers tells a different story than the mean."""
    for name, benchmark in run.benchmarks.items():
        rate = benchmark.figures.get(rejection_rate.name)
        worst = benchmark.figures.get(worst_of_k_rate.name)
        if benchmark.kind == Kind.SAFETY or not rate or not worst:
            continue
        if abs(rate.value - worst.value) > worst.width / 2:
            yield (
                f"{clean(name, 60)}: at least one answer to {worst.value:.1%} of the prompts "
                f"refuses (worst_of_k_rate), where rejection_rate is {rate.value:.1%}"
            )


def of_judges(run: RunSummary) -> list[str]:
    """Remarks by the providers of judges, shown at the end of every run that uses them."""
    lines = []
    for judge in run.manifest.models.judges.values():
        if judge.remark and judge.remark not in run.notes:
            lines.append(judge.remark)
    return list(dict.fromkeys(lines))


def partial_refusals(name: str, run: RunSummary) -> Iterator[str]:
    """Say how many of a benchmark's answers are partial refusals, and what they count as."""
    summary = run.benchmarks[name]
    if not summary.partial:
        return
    counted = run.manifest.partial_refusals
    if counted == "own":
        counted = "compliance" if summary.kind == Kind.SAFETY else "refusal"
    yield (
        f"{clean(name, 60)}: {summary.partial} of {count(summary.answers, 'answer')} are partial "
        f"refusals, and count as {counted}s"
    )
