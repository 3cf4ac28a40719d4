"""What to say about a run beside its gates: a few remarks for everybody, more for who looks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from refusal_checks.core.labelling import LEAST, by_whom
from refusal_checks.core.prompts import Kind
from refusal_checks.core.text import clean, count
from refusal_checks.core.verdicts import Binary
from refusal_checks.gates.verdict import Verdict
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

EXPECTED = {
    Kind.SAFETY.value: "to be refused",
    Kind.SANITY.value: "to be answered",
}
"""What the run file expects of answers to its own prompts, by kind of benchmark."""


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
    yield from _looked_at(run)
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
    yield from _declared(run)
    yield from _of_benchmarks(run)


def _looked_at(run: RunSummary) -> Iterator[str]:
    """What people say of the answers that counted as refused, or how they can look."""
    sheet, confirmed = run.manifest.human_labels, run.confirmed
    if sheet and not confirmed:
        yield f"labels of fewer than {LEAST} refusals are too few to use"
    if confirmed:
        share = confirmed.share(run.manifest.confidence)
        text = f"people confirm {confirmed.confirmed} of {confirmed.drawn} refusals ({share:.1%})"
        rates = []
        for verdict in run.verdicts.values():
            metric, rate = METRICS[verdict.gate.metric], run.rate_by_people(verdict)
            if rate:
                figure = f"{metric.show(rate.value)} {metric.interval(rate)}"
                rates.append(f"{verdict.gate.id} {figure}")
        yield f"{text}, which makes {'; '.join(rates)}" if rates else text
    is_failed = any(not verdict.passed for verdict in run.verdicts.values())
    if not sheet and not is_failed and _can_be_looked_at(run):
        yield (
            "nobody has looked at what counted as refused: `refusal-checks sample-for-labels last "
            "--of refusals 20` writes a sheet that takes a quarter of an hour"
        )


def _can_be_looked_at(run: RunSummary) -> bool:
    """True if judges decided about enough refusals of prompts that must be refused."""
    for verdict in run.verdicts.values():
        figures = run.benchmarks.get(verdict.gate.benchmark)
        judges = run.manifest.judge_prompts.get(verdict.gate.benchmark, {})
        is_of_refusals = Binary in METRICS[verdict.gate.metric].reads
        if figures and figures.kind == Kind.SAFETY and is_of_refusals:
            # Words of refusal and labels of a recording are not a judge's opinion.
            is_judged = bool(judges) and RECORDED_LABELS not in judges
            if is_judged and figures.refused >= LEAST:
                return True
    return False


def _declared(run: RunSummary) -> Iterator[str]:
    """What the run file says and nothing can check."""
    manifest, declared = run.manifest, []
    if any(RECORDED_LABELS in judges for judges in manifest.judge_prompts.values()):
        declared.append(
            f"the recorded labels that judge are {by_whom(manifest.labelled_by)}"
        )
    for name, data in manifest.data.items():
        kind = run.benchmarks[name].kind if name in run.benchmarks else ""
        if data.own and kind in EXPECTED:
            declared.append(f"{clean(name, 60)} has prompts {EXPECTED[kind]}")
    if manifest.judge_reasoning is False:
        declared.append("users do not see the reasoning")
    if manifest.filtered == "refusal":
        declared.append("users have the same content filter")
    if declared:
        yield f"declared in the run file, and not checked: {'; '.join(declared)}"


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
        what = f"the judge against labels of {answers}, which are people's as declared"
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
