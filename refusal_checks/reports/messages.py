"""What the test of a gate or of the judge says: its message, and its properties in JUnit."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from refusal_checks.core.text import clean, count
from refusal_checks.core.verdicts import Reason
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.lines import line_of
from refusal_checks.gates.offenders import Offender
from refusal_checks.gates.sentences import sentence
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges.trust.canary import Check, Figure, JudgeCheck
from refusal_checks.metrics import METRICS
from refusal_checks.reports import explain
from refusal_checks.reports.explain import moved, remarks_on, select
from refusal_checks.results.summary import RunSummary


def message(verdict: Verdict) -> str:
    return "\n".join(
        [*(each.text for each in remarks_on(verdict)), *_prompts(verdict, set())]
    )


def failure_line(verdict: Verdict) -> str:
    """A gate that did not pass, in one line; its waiver comes first."""
    waiver = select(verdict, "waiver") if verdict.waived else []
    return "; ".join([*waiver, f"{verdict.gate.benchmark}: {sentence(verdict)}"])


def brief_message(verdict: Verdict, shown: set[tuple[str, str]]) -> str:
    """What a terminal shows: no statistics, and no prompt that it has ``shown`` for another gate.

    Benchmarks and ids of the prompts that this message shows join them. The end of the run
    shows an example of what a judge wrote in place of a verdict.
    """
    shown.add(_UNREAD)
    return "\n".join([*select(verdict, "brief"), *_prompts(verdict, shown)])


_UNREAD = ("", Reason.UNPARSABLE_VERDICT.value)
"""Marks, among what is shown, that an example of an unreadable verdict was. One is enough."""


def _prompts(verdict: Verdict, shown: set[tuple[str, str]]) -> Iterator[str]:
    """The prompts that count against the gate, and those that moved; each of them once."""
    flips = {flip.now.id: flip for moves in moved(verdict) for flip in moves.flips}
    metric = METRICS[verdict.gate.metric]

    def unseen(ids: Iterable[str]) -> set[str]:
        """Those that have not been shown yet; from now on they count as shown."""
        new = {(verdict.gate.benchmark, each) for each in ids} - shown
        shown.update(new)
        return {each for _, each in new}

    def told(number: int, prompt: Offender, score: str) -> Iterator[str]:
        groups = ", ".join(clean(value, 60) for value in prompt.groups.values())
        yield from ("", f"  {number}. {clean(prompt.id, 80)}  {groups}{score}")
        is_unread = prompt.verdict == Reason.UNPARSABLE_VERDICT
        lines = [*exchange(prompt)][: -1 if is_unread and _UNREAD in shown else None]
        yield from (f"     {line}" for line in lines)
        if is_unread:
            shown.add(_UNREAD)
        if flip := flips.get(prompt.id):
            before = (
                "(no longer stored)"
                if flip.answer_before is None
                else flip.answer_before
            )
            was = f"{clean(flip.verdict_before, 60)}: {clean(before) or '(none)'}"
            yield f"     before:    {was}"

    new = unseen(each.id for each in verdict.offenders)
    offenders = [each for each in verdict.offenders if each.id in new]
    if verdict.offenders:
        total, rest = verdict.counted_against, ":" if offenders else ": shown above"
        counts = f"{count(total, 'prompt')} that {'counts' if total == 1 else 'count'}"
        number = len(offenders or verdict.offenders)
        alike = len({each.confidence for each in verdict.offenders}) == 1
        order = (
            "one of each group first"
            if verdict.offenders[0].groups
            else "in the data's order"
        )
        tied = f" (of equally bad ones, {order})" * (
            alike and len(verdict.offenders) < total
        )
        yield f"worst {number} of {counts} against this gate{tied}{rest}"
    for number, each in enumerate(offenders, 1):
        known = each.confidence
        yield from told(
            number, each, "" if known is None else f"  refusal confidence {known:+.2f}"
        )
    for moves in moved(verdict):
        new = unseen(flip.now.id for flip in moves.flips)
        moves = moves._replace(
            flips=[flip for flip in moves.flips if flip.now.id in new]
        )
        if moves.flips:
            yield from ("", f"{moves.heading}:")
        for number, flip in enumerate(moves.flips, 1):
            scores = f"{flip.before:+.2f} then, {flip.after:+.2f} now"
            yield from told(number, flip.now, f"  {metric.scored} {scores}")


def exchange(offender: Offender, limit: int = 300) -> Iterator[str]:
    """Prompt, answer, verdict and the judge's rationale, harmless, of ``limit`` characters each."""
    verdict = offender.verdict + (
        f" ({offender.category})" if offender.category else ""
    )
    if offender.expected:
        verdict += f"; the right one is {offender.expected[:20]}"
    if offender.cut:
        verdict += f"; the judge did not see {offender.cut} characters of the answer"
    if offender.escaped:
        verdict += f"; {offender.escaped} special tokens were broken up for the judge"
    yield f"prompt:    {clean(offender.prompt, limit)}"
    yield f"answer:    {clean(offender.answer, limit) or '(none)'}"
    yield f"verdict:   {clean(verdict)}"
    yield f"rationale: {clean(offender.rationale, limit) or '(none)'}"


SHOWN = 10  # maximum number of mistakes that a message names


def judge_message(check: Check) -> Iterator[str]:
    """Lines of a failed check: its result and the judge's mistakes, made harmless."""
    yield check.headline
    if check.mistakes:
        yield f"{min(SHOWN, len(check.mistakes))} of {len(check.mistakes)} wrong verdicts:"
    for mistake in check.mistakes[:SHOWN]:
        yield f"  {mistake.id} ({mistake.type}): {mistake.verdict}, correct is {mistake.expected}"
        yield f"     rationale: {clean(mistake.rationale) or '(none)'}"


FILE, LINE = (
    "threshold_file",
    "threshold_line",
)  # properties with the place of a gate's bounds
TAG = "dd_tags[refusal_checks.{}]"  # a property's second name: Datadog makes it a tag of the test


def of_judge(checked: JudgeCheck, figure: Figure) -> list[tuple[str, str]]:
    # Of several ways of judging, the one that does worst.
    made = [each for each in checked.checks if each.figure == figure]
    check = next((each for each in made if not each.passed), made[0])
    known: dict[str, object] = {
        "judge": checked.judge,
        "canary_sha256": checked.digest,
        "bound": check.bound,
        "verdicts_asked": checked.asked,
        "seconds": round(checked.seconds, 3),
    }
    if found := check.estimate:
        known |= {
            "value": found.value,
            "lower": found.lower,
            "upper": found.upper,
            "n": found.n,
        }
    return [(name, clean(str(value))) for name, value in known.items()]


def provenance(summary: RunSummary, benchmark: str = "") -> dict[str, str]:
    """Where a run's figures come from, by name, and what is special about a benchmark's."""
    found = summary.manifest
    properties = {"candidate": found.candidate, "judge": found.judge}
    for name, data in found.data.items():
        unpinned = " (unpinned rows)" if not data.pinned else ""
        properties[f"data_revision/{name}"] = f"{data.revision or ''}{unpinned}"
        properties[f"prompts/{name}"] = str(data.prompts)
        if data.is_partial:
            properties[f"part/{name}"] = f"only {data.prompts} of {data.usual} prompts"
        properties[f"judge_prompt_sha256/{name}"] = ", ".join(
            found.judge_prompts[name].values()
        )
    if found.stored:
        properties["stored_answers"] = found.stored
    if found.left_out:
        properties["left_out"] = "; ".join(found.left_out)
    figures = summary.benchmarks.get(benchmark)
    if figures is None:
        return properties
    for category, number in figures.refusal_categories.items():
        field = re.sub(r"[^A-Za-z0-9]", "_", category)[:60]
        properties[f"refusal_category_{field}"] = str(number)
    return properties


def properties(
    verdict: Verdict, provenance: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Name and value pairs: the gate's figures, then facts (``fact/benchmark``) of the run."""
    gate, estimate, need = verdict.gate, verdict.estimate, verdict.need
    waiver, holds = gate.waiver, None  # or why it does nothing
    if waiver and not verdict.is_idle:
        holds = (
            "holds" if verdict.waived else "not needed" if verdict.passed else "expired"
        )
    failed = [each.gate.group or "" for each in verdict.groups if not each.passed]
    figures: dict[str, object] = {
        "worst_group": explain.group_of(verdict) if verdict.groups else None,
        "failed_groups": ", ".join(failed) or None,
        "value": estimate.value,
        "interval_lower": estimate.lower,
        "interval_upper": estimate.upper,
        "n": estimate.n,
        **_bounds(gate),
        "invalid_rate": verdict.invalid,
        "bound_lower": verdict.bounds[0],
        "bound_upper": verdict.bounds[1],
        "outcome": verdict.outcome.value,
        "result": explain.mark(verdict).rstrip("?").lower(),
        "confidence": verdict.level,
        "prompts_needed": need and need.prompts,
        "samples_needed": need and need.samples,
        "invalid_answers_decide": "yes" if verdict.flips else None,
        "not_checked": verdict.skipped or None,
        "use": verdict.use,
        "waiver": holds,
        "waived_until": waiver and waiver.until,
        "waived_by": waiver and waiver.by,
        "waived_reason": waiver and waiver.reason,
    }
    if compared := verdict.comparison:
        figures |= {
            "baseline": f"{compared.candidate} {compared.started}",
            "change": compared.change.value,
            "change_lower": compared.change.lower,
            "change_upper": compared.change.upper,
            "change_bound_lower": compared.lower,
            "change_bound_upper": compared.upper,
            "flips_lost": compared.lost,
            "flips_gained": compared.gained,
            "p_flips": compared.p_flips,
        }
    for view in verdict.views:
        figures[f"{view.use}_value"] = view.estimate.value
        figures[f"{view.use}_interval"] = (
            f"{view.estimate.lower:.6g} {view.estimate.upper:.6g}"
        )
        figures[f"{view.use}_note"] = view.note or None
    return _pairs(gate, sentence(verdict), figures, provenance)


def of_error(
    gate: Gate, error: str, provenance: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Name and value pairs of a gate that has no figure; the run's facts may not be known yet."""
    facts = {**_bounds(gate), "outcome": "error", "result": "error"}
    return _pairs(
        gate, f"Could not be evaluated: {clean(error, 500)}", facts, provenance
    )


def _bounds(gate: Gate) -> dict[str, object]:
    """What is asked, why, and where that is written."""
    line, here, file = line_of(gate), Path.cwd(), Path(gate.source)
    if file.is_relative_to(here):  # so that CI finds it in the repository
        file = file.relative_to(here)
    return {
        "minimum": gate.minimum,
        "maximum": gate.maximum,
        **dict(zip(gate.margin_names, (gate.max_drop, gate.max_rise), strict=True)),
        "decision": gate.decision,
        "rationale": gate.provenance or None,
        FILE: file.as_posix() if line else None,
        LINE: line,
    }


def _pairs(
    gate: Gate,
    summary: str,
    figures: Mapping[str, object],
    provenance: Mapping[str, str],
) -> list[tuple[str, str]]:
    """What is known, and the facts of the run and the benchmark: by name, then all as tags."""
    about = {"benchmark": gate.benchmark, "metric": gate.metric, "group": gate.group}
    facts = {"summary": summary, **about, **figures}
    for fact, value in provenance.items():
        name, _, benchmark = fact.partition("/")
        if benchmark in ("", gate.benchmark):
            facts[name] = value
    pairs = [
        (name, f"{value:.6g}" if isinstance(value, float) else clean(str(value), 2000))
        for name, value in facts.items()
        if value is not None
    ]
    return pairs + [(TAG.format(name), value) for name, value in pairs]
