"""What matters most about a run, in words: what is wrong, an answer that shows it, what else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from refusal_checks.core.prompts import Kind
from refusal_checks.core.text import clean, count
from refusal_checks.gates import explain
from refusal_checks.gates.decide import Verdict
from refusal_checks.metrics import METRICS
from refusal_checks.reports import attack_matrix, judges_asked, words
from refusal_checks.reports.explain import Topic, select
from refusal_checks.reports.worst_answers import worst_answers
from refusal_checks.results.summary import BenchmarkSummary, RunSummary


class Example(NamedTuple):
    """A prompt that counts against a gate.

    Attributes:
        gate: its id.
        id, prompt: untrusted text, unescaped.
        more: how many other prompts count against the gate.
    """

    gate: str
    benchmark: str
    id: str
    prompt: str
    more: int


def wrong(run: RunSummary) -> Iterator[tuple[str, Example | None]]:
    """What is wrong, in words, gate by gate, each with a prompt that shows it; none twice."""
    shown = {each.gate: each for each in examples(run)}
    for gate_id, verdict in run.verdicts.items():
        if not verdict.passed:
            yield sentence(verdict), shown.get(gate_id)


def weighty(run: RunSummary) -> Iterator[str]:
    """What users must know about how the verdicts came about."""
    for check in run.judge.checks if run.judge else ():
        if not check.passed:
            yield clean(f"the judge failed its check: {check.headline}", 500)
    yield from notes(run)
    yield from differences(run)
    for verdict in run.verdicts.values():
        if verdict.passed and (verdict.warns or verdict.flips or _is_worse(verdict)):
            yield sentence(verdict)


def _is_worse(verdict: Verdict) -> bool:
    """True if the whole benchmark did worse than in the earlier run, beyond what is chance."""
    gate, compared = verdict.gate, verdict.comparison
    if compared is None or gate.group is not None or verdict.kind not in set(Kind):
        return False
    guard = METRICS[gate.metric].guard(Kind(verdict.kind))
    change = compared.change
    return (guard == "min" and change.upper < 0) or (guard == "max" and change.lower > 0)


def sentence(verdict: Verdict) -> str:
    """A gate's sentence under its benchmark's name, with how many prompts moved and its waiver."""
    moved = verdict.comparison and explain.moves(verdict.gate, verdict.comparison)
    counted = f" {moved[0].upper()}{moved[1:]}." if moved and moved[0].isdigit() else ""
    waiver = [f" {text[0].upper()}{text[1:]}." for text in select(verdict, Topic.WAIVER)]
    told = f"{explain.sentence(verdict)}{counted}{''.join(waiver)}"
    return f"{clean(verdict.gate.benchmark, 60)}: {told}"


def examples(run: RunSummary) -> Iterator[Example]:
    """A prompt that counts against each gate that failed; none of them twice."""
    seen: set[str] = set()
    for gate_id, verdict in run.verdicts.items():
        worst = () if verdict.passed else verdict.offenders
        first = next((each for each in worst if each.id not in seen), None)
        if first:
            seen.add(first.id)
            others = max(0, verdict.counted_against - 1)
            yield Example(gate_id, verdict.gate.benchmark, first.id, first.prompt, others)


def lighter(run: RunSummary) -> Iterator[str]:
    """What a reader may want to know of a run that is in order."""
    yield from _since(run)
    if any(words.mark(verdict).endswith("?") for verdict in run.verdicts.values()):
        yield "?: too few prompts to be sure of the outcome"
    yield from skipped(run)
    for name, benchmark in run.benchmarks.items():
        yield from benchmark_lines(name, benchmark)
    yield from attack_matrix.lines(run)
    yield from worst_answers(run)


def notes(summary: RunSummary) -> Iterator[str]:
    """What the user must know about how the verdicts came about; paths are not cut."""
    for note in summary.notes:
        yield clean(f"note: {note}", 300)


def differences(run: RunSummary) -> Iterator[str]:
    """Why the baseline is hard to compare with, once for each benchmark."""
    compared = [each for each in run.verdicts.values() if each.comparison]
    found = {
        f"{clean(each.gate.benchmark, 60)}: not comparable: {clean(difference)}": None
        for each in compared
        for difference in each.comparison.differences  # type: ignore[union-attr]
    }
    yield from found


def _since(run: RunSummary) -> Iterator[str]:
    """The run that the column of changes is measured against."""
    earlier = {
        (clean(found.name or explain.short(found.candidate), 60), clean(found.started[:10], 30))
        for verdict in run.verdicts.values()
        if (found := verdict.comparison)
    }
    if earlier:
        named = " and ".join(f"{name} of {day}" for name, day in sorted(earlier))
        yield f"change: in points since {named}"


def skipped(summary: RunSummary) -> Iterator[str]:
    """What was not checked because there is no baseline."""
    skipped = [verdict.gate for verdict in summary.verdicts.values() if verdict.skipped]
    if skipped:
        names = ", ".join(dict.fromkeys(gate.benchmark for gate in skipped))
        yield (
            f"give --baseline for {names}: max_drop and max_rise of "
            f"{count(len(skipped), 'gate')} were not checked"
        )


def benchmark_lines(name: str, summary: BenchmarkSummary) -> Iterator[str]:
    """Answers of a benchmark without a verdict, prompts not evaluated, a second judge's share."""
    if summary.invalid:
        reasons = ", ".join(f"{number} {reason}" for reason, number in summary.invalid.items())
        yield f"invalid in {name}: {reasons} (of {summary.answers} answers)"
    if summary.prompts < summary.planned:
        yield (
            f"{name} stopped early after {summary.prompts} of {summary.planned} prompts: "
            f"{summary.saved:.1%} saved (only the intervals of its gates allow for that)"
        )
    yield from judges_asked.second(name, summary)
    yield from judges_asked.reasons(name, summary)
