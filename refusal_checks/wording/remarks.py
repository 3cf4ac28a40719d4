"""Remarks about a run beside its gates: a few for every reader, more for those who want details."""

from __future__ import annotations

from collections.abc import Iterator

from refusal_checks.core.judgements import Binary
from refusal_checks.core.labelling import LEAST, describe_labeller
from refusal_checks.core.prompts import Kind
from refusal_checks.core.text import count, sanitize
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.worst_case import worst_of_k_rate
from refusal_checks.models.model_names import RECORDED_LABELS
from refusal_checks.results.summary import RunSummary
from refusal_checks.wording.gate_sentences import earlier_name, line
from refusal_checks.wording.release import release_decision

EXPECTED = {
    Kind.SAFETY.value: "to be refused",
    Kind.SANITY.value: "to be answered",
}
"""What the run file expects of answers to its own prompts, by kind of benchmark."""


def remarks(run: RunSummary) -> Iterator[str]:
    """What every reader of the run's figures should know."""
    # What reservations say, only where the answer does not name them.
    is_silent = release_decision(run).answer in ("no", "open")
    if is_silent:
        yield from map(sanitize, run.misnamed)
    yield from map(sanitize, run.left_out)
    yield from (sanitize(f"note: {text}", 300) for text in dict.fromkeys(run.notes))
    skipped = [
        verdict.gate
        for verdict in run.verdicts.values()
        if verdict.skipped and (is_silent or not verdict.is_idle)
    ]
    if skipped:
        names = ", ".join(dict.fromkeys(gate.benchmark for gate in skipped))
        gates = count(len(skipped), "gate")
        yield (
            f"give a --baseline that has {names}: max_drop and max_rise of {gates} were not "
            "checked"
        )
    yield from _label_remarks(run)
    yield from _agreement(run)
    yield from _worst_answer_rates(run)
    yield from (line(v) for v in run.verdicts.values() if v.passed and _is_worse(v))
    compared = [v.comparison for v in run.verdicts.values() if v.comparison]
    earlier = {f"{earlier_name(c)} of {sanitize(c.started[:10], 30)}" for c in compared}
    if earlier:
        yield f"change: in points since {' and '.join(sorted(earlier))}"


def more_remarks(run: RunSummary) -> Iterator[str]:
    """What explains the figures to somebody who takes a closer look."""
    # An acceptance that nothing needs would hide the next reservation of its kind.
    needed = {found.id for found in release_decision(run).reservations}
    unneeded = [name for name in run.manifest.spec.accept.granted if name not in needed]
    if unneeded:
        yield f"remove from [accept] what this run does not need: {', '.join(unneeded)}"
    if run.judge_means:
        yield sanitize(run.judge_means, 500)
    for judge in run.manifest.models.judges.values():
        if judge.remark and judge.remark not in run.notes:
            yield judge.remark
    yield from _declarations(run)
    if run.balance:
        under, over = run.balance.under_refusal, run.balance.over_refusal
        yield f"under-refusal {under:.1%} (safety) | over-refusal {over:.1%} (sanity)"
    for name, summary in run.benchmarks.items():
        shown, answers = sanitize(name, 60), count(summary.answers, "answer")
        if summary.invalid:
            missing = sum(summary.invalid.values())
            reasons = (f"{why} ({number})" for why, number in summary.invalid.items())
            yield f"no verdict on {missing} of {answers} to {shown}: {', '.join(reasons)}"
        if summary.disputed is not None:
            yield f"judges disagree on {summary.disputed} of {answers} to {shown}"
        if summary.read_by:
            rules, others = (summary.read_by.get(who, 0) for who in ("rules", "judge"))
            yield f"chosen options in {shown}: {rules} read by rules, {others} by the judge"
        if summary.partial:
            counted = run.manifest.spec.judge.partial
            if counted == "own":
                counted = "compliance" if summary.kind == Kind.SAFETY else "refusal"
            yield (
                f"{shown}: {summary.partial} of {answers} are partial refusals, counted as "
                f"{counted}s"
            )


def _label_remarks(run: RunSummary) -> Iterator[str]:
    """What people say about the answers counted as refusals, or how they can check them."""
    sheet, confirmed = run.manifest.human_labels, run.confirmed
    if sheet and not confirmed:
        yield f"label at least {LEAST} refusals: fewer are too few to use"
    if confirmed:
        share = confirmed.share(run.manifest.spec.settings.confidence)
        text = f"people confirm {confirmed.confirmed} of {confirmed.drawn} refusals ({share:.1%})"
        rates = []
        for verdict in run.verdicts.values():
            metric, rate = METRICS[verdict.gate.metric], run.rate_by_people(verdict)
            if rate:
                figure = f"{metric.show(rate.value)} {metric.interval(rate)}"
                rates.append(f"{verdict.gate.id} {figure}")
        yield f"{text}, which makes {'; '.join(rates)}" if rates else text
    if sheet and sheet.deleted:
        yield (
            f"{sheet.deleted} of {sheet.drawn} drawn rows are missing from {sanitize(sheet.file)} "
            "and count as not confirmed"
        )
    is_failed = any(not verdict.passed for verdict in run.verdicts.values())
    # Refusals are what a pass rests on; a failed run has more urgent things to say.
    if not sheet and not is_failed and _can_be_looked_at(run):
        yield (
            "check some refusals yourself, in about 15 minutes: `refusal-checks "
            "sample-for-labels last --of refusals 20` writes a sheet for it"
        )


def _can_be_looked_at(run: RunSummary) -> bool:
    """True if judges found enough refusals on prompts that must be refused."""
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


def _agreement(run: RunSummary) -> Iterator[str]:
    """How well the judge agrees with people's labels in a recording, and where least."""
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
        what = f"the judge against labels of {answers}, declared as given by people"
        if type_:
            what = f"the judge errs most on {sanitize(type_, 60)}, {answers}"
        yield f"{what}: {', '.join(figures)}"


def _worst_answer_rates(run: RunSummary) -> Iterator[str]:
    """How often prompts were refused by the worst of several answers."""
    for kind, how in ((Kind.SAFETY, "every time"), (Kind.SANITY, "at least once")):
        shares = [
            f"{sanitize(name, 60)} {benchmark.figures[worst_of_k_rate.name].value:.1%}"
            for name, benchmark in run.benchmarks.items()
            if benchmark.kind == kind
            and benchmark.answers > benchmark.prompts  # else it is the rate itself
            and worst_of_k_rate.name in benchmark.figures
        ]
        if shares:
            yield f"refused {how}: {', '.join(shares)}"


def _is_worse(verdict: Verdict) -> bool:
    """True if the whole benchmark is significantly worse than in the earlier run."""
    gate, compared = verdict.gate, verdict.comparison
    # Whole benchmarks alone: of many groups, some are worse by chance.
    if compared is None or gate.group is not None or verdict.kind not in set(Kind):
        return False
    guard = METRICS[gate.metric].guard(Kind(verdict.kind))
    fell, rose = compared.change.upper < 0, compared.change.lower > 0
    return (guard == "min" and fell) or (guard == "max" and rose)


def _declarations(run: RunSummary) -> Iterator[str]:
    """What the run file declares and nothing can check."""
    manifest, declared = run.manifest, []
    if any(RECORDED_LABELS in judges for judges in manifest.judge_prompts.values()):
        declared.append(
            f"the recorded labels are {describe_labeller(manifest.spec.recording.labelled_by)}"
        )
    for name, data in manifest.data.items():
        kind = run.benchmarks[name].kind if name in run.benchmarks else ""
        if data.own and kind in EXPECTED:
            declared.append(f"{sanitize(name, 60)} has prompts {EXPECTED[kind]}")
    if manifest.spec.candidate.judge_reasoning is False:
        declared.append("users do not see the reasoning")
    if manifest.spec.candidate.filtered == "refusal":
        declared.append("users get the same content filter")
    if declared:
        yield f"declared in the run file, not checked: {'; '.join(declared)}"
