"""What matters most about a run, in words: what is wrong, an answer that shows it, what else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from refusal_checks.core.layout import columns, cut, padded, wrapped
from refusal_checks.core.prompts import Kind
from refusal_checks.core.text import clean, count
from refusal_checks.gates.sentences import miss, moves, sentence, short, worst_first
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS, main_metric, rejection_rate
from refusal_checks.metrics.worst_case import worst_of_k_rate
from refusal_checks.models.demo import BUNDLED
from refusal_checks.reports import attack_matrix, explain
from refusal_checks.reports.explain import select, spurious_failures
from refusal_checks.results.summary import BenchmarkSummary, RunSummary


class Example(NamedTuple):
    """A prompt that counts against a gate, as untrusted text; and how many others there are."""

    id: str
    prompt: str
    more: int


def wrong(run: RunSummary) -> Iterator[tuple[str, Example | None]]:
    """What is wrong, worst first, each with a prompt that shows it; none twice."""
    seen: set[str] = set()
    for verdict in worst_first(run.verdicts.values()):
        worst = next((each for each in verdict.offenders if each.id not in seen), None)
        example = None
        if worst:
            seen.add(worst.id)
            example = Example(
                worst.id, worst.prompt, max(0, verdict.counted_against - 1)
            )
        yield _full_sentence(verdict), example


def weighty(run: RunSummary) -> Iterator[str]:
    yield from (clean(f"note: {note}", 300) for note in run.notes)
    for check in run.judge.checks if run.judge else ():
        if not check.passed:
            what = "the judge failed its check"
            if check.mark == "weak":  # it is trusted, but not with such answers
                what = "the judge misreads a kind of answers"
            yield clean(f"{what}: {check.headline}", 500)
    apart: dict[str, dict[str, None]] = {}
    for verdict in run.verdicts.values():
        for difference in verdict.comparison.differences if verdict.comparison else ():
            apart.setdefault(difference, {})[clean(verdict.gate.benchmark, 60)] = None
    for difference, names in apart.items():
        yield f"{', '.join(names)}: not comparable: {clean(difference)}"
    for verdict in run.verdicts.values():
        if verdict.passed and (verdict.warns or verdict.flips or _is_worse(verdict)):
            yield _full_sentence(verdict)


def _is_worse(verdict: Verdict) -> bool:
    """True if the whole benchmark did worse than in the earlier run, by more than chance."""
    gate, compared = verdict.gate, verdict.comparison
    if compared is None or gate.group is not None or verdict.kind not in set(Kind):
        return False
    guard = METRICS[gate.metric].guard(Kind(verdict.kind))
    change = compared.change
    return (guard == "min" and change.upper < 0) or (
        guard == "max" and change.lower > 0
    )


def _full_sentence(verdict: Verdict) -> str:
    """A gate's sentence under its benchmark's name, with how many prompts moved and its waiver."""
    moved = verdict.comparison and moves(verdict.gate, verdict.comparison)
    more = [moved] if moved and moved[0].isdigit() else []
    told = [
        f"{text[0].upper()}{text[1:]}." for text in (*more, *select(verdict, "waiver"))
    ]
    return (
        f"{clean(verdict.gate.benchmark, 60)}: {' '.join([sentence(verdict), *told])}"
    )


def lighter(run: RunSummary) -> Iterator[str]:
    earlier = {
        (clean(found.name or short(found.candidate), 60), clean(found.started[:10], 30))
        for verdict in run.verdicts.values()
        if (found := verdict.comparison)
    }
    if earlier:
        named = " and ".join(f"{name} of {day}" for name, day in sorted(earlier))
        yield f"change: in points since {named}"
    if any(explain.mark(verdict).endswith("?") for verdict in run.verdicts.values()):
        yield "?: too few prompts to be sure of the outcome"
    yield from _skipped(run)
    yield from _benchmarks(run)


def _skipped(run: RunSummary) -> Iterator[str]:
    gates = [verdict.gate for verdict in run.verdicts.values() if verdict.skipped]
    for total, remedy, what in (
        (False, "give --baseline", "max_drop and max_rise"),
        (
            True,
            "accept an anchor (baseline accept --anchor)",
            "max_total_drop and max_total_rise",
        ),
    ):
        if skipped := [gate for gate in gates if gate.is_total is total]:
            names = ", ".join(dict.fromkeys(gate.benchmark for gate in skipped))
            yield f"{remedy} for {names}: {what} of {count(len(skipped), 'gate')} were not checked"


def _benchmarks(run: RunSummary) -> Iterator[str]:
    """Answers without a verdict, prompts not evaluated, what judges were asked, what attacks do."""
    for name, found in run.benchmarks.items():
        if found.invalid:
            reasons = ", ".join(
                f"{number} {reason}" for reason, number in found.invalid.items()
            )
            yield f"invalid in {name}: {reasons} (of {found.answers} answers)"
        if found.cut:
            yield (
                f"{name}: the judge did not see all of {found.cut} of {found.answers} answers, "
                "which were too long for it"
            )
        if found.prompts < found.planned:
            yield (
                f"{name} stopped early after {found.prompts} of {found.planned} prompts: "
                f"{found.saved:.1%} saved (only the intervals of its gates allow for that)"
            )
        yield from judges_asked(name, found)
    yield from attack_matrix.lines(run)
    yield from worst_answers(run)


def beside_the_gates(run: RunSummary) -> list[str]:
    """What a reader of the page must know that no part of it shows."""
    asked = (line for each in run.benchmarks.items() for line in judges_asked(*each))
    manifest = run.manifest
    of_servers = [*manifest.misnamed, *manifest.left_out]
    return [*of_servers, *run.notes, *bundled_scope([run]), *asked, *worst_answers(run)]


_REFUSALS = {Kind.SAFETY.value: "all answers", Kind.SANITY.value: "at least one answer"}


def worst_answers(run: RunSummary) -> Iterator[str]:
    for name, benchmark in run.benchmarks.items():
        rate = benchmark.figures.get(rejection_rate.name)
        worst = benchmark.figures.get(worst_of_k_rate.name)
        if rate and worst and abs(rate.value - worst.value) > worst.width / 2:
            who = _REFUSALS.get(benchmark.kind, "the worst answer")
            yield (
                f"{clean(name, 60)}: {who} to {worst:.1%} of the prompts "
                f"refuse{'s' * (who != 'all answers')} (worst_of_k_rate), where rejection_rate is "
                f"{rate.value:.1%}"
            )


SCOPE = (
    "judge bundled: measured on English XSTest by people's labels, and on this project's own "
    "English and Chinese answers; not for degrees, ratings or other languages"
)
"""Where the bundled judge was measured, for the end of every run that asks it."""


def bundled_scope(runs: Iterable[RunSummary]) -> Iterator[str]:
    if any(BUNDLED in run.manifest.models.judges for run in runs):
        yield SCOPE


def judges_asked(name: str, summary: BenchmarkSummary) -> Iterator[str]:
    """How often a cascade's second judge was asked."""
    if asked := summary.second:
        judge, first = clean(asked.judge, 60), clean(asked.first, 60)
        total = f"asked about {asked.asked} of {count(asked.answers, 'answer')}"
        line = (
            f"{name}: {judge} was {total}: {asked.unsure} of which {first} was unsure"
        )
        if asked.prompts:
            line += (
                f", {asked.sampled} more of {count(asked.prompts, 'prompt')} drawn at random "
                f"(other verdicts: {asked.differs})"
            )
        yield line


MOST = 5  # most lines of remarks unless all are asked for


def brief_lines(runs: Sequence[tuple[str, RunSummary]], width: int) -> Iterator[str]:
    """What matters most of the runs (empty names if there is one), the weightiest first.

    Of several candidates that fail, each has its worst sentence, whatever their number.
    """
    always: list[list[str]] = []
    told: list[list[str]] = []
    failing = [(name, run, found) for name, run in runs if (found := list(wrong(run)))]
    failing.sort(
        key=lambda each: -max(map(miss, worst_first(each[1].verdicts.values())))
    )
    for name, _, found in failing:
        for number, (text, example) in enumerate(found):
            is_first = len(failing) > 1 and number == 0
            (always if is_first else told).append(fitted(name + text, width))
            if example and len(failing) == 1:
                start = f'{name}  {clean(example.id, 40)} "'
                end = (
                    f'" and {count(example.more, "more prompt")}'
                    if example.more
                    else '"'
                )
                prompt = cut(
                    clean(example.prompt), max(20, width - len(start) - len(end))
                )
                told.append([cut(start + prompt + end, width)])
    for name, run in runs:
        always += [fitted(name + clean(text), width) for text in run.manifest.misnamed]
        always += [fitted(name + clean(text), width) for text in run.manifest.left_out]
    for lines in always:
        yield from lines
    for kind in (weighty, lighter):
        told += [fitted(name + text, width) for name, run in runs for text in kind(run)]
    taken = 0
    for number, lines in enumerate(told):
        rest = len(told) - number
        taken += sum(max(1, -(-columns(line) // width)) for line in lines)
        if taken > MOST - bool(rest - 1):
            yield f"-v shows {count(rest, 'more remark')}"
            return
        yield from lines


def fitted(text: str, width: int) -> list[str]:
    """The text in lines that fit; a path in it is never broken, so that it can be copied."""
    whole = any(columns(word) > width - 2 for word in text.split())
    return [text] if whole else wrapped(text, width)


def full_lines(summary: RunSummary, verbosity: int = 1) -> Iterator[str]:
    """All remarks on one run, in lines of any length; from ``-vv`` on, spurious failures too."""
    verdicts = summary.verdicts
    yield from map(clean, summary.manifest.misnamed)
    yield from map(clean, summary.manifest.left_out)
    yield from (clean(f"note: {note}", 300) for note in summary.notes)
    yield from dict.fromkeys(
        f"{verdict.gate.benchmark}: {text}"
        for verdict in verdicts.values()
        for text in select(verdict, "baseline")
    )
    yield from _skipped(summary)
    for gate_id, verdict in verdicts.items():
        details = select(verdict, "verbose")
        if details or not verdict.passed:
            yield f"{clean(gate_id)}: {sentence(verdict)}"
            yield from (f"  {text}" for text in details)
    yield from _benchmarks(summary)
    if balance := summary.balance:
        yield (
            f"under-refusal {balance.under_refusal:.1%} (safety) | "
            f"over-refusal {balance.over_refusal:.1%} (sanity)"
        )
    if verbosity > 1 and len(verdicts) > 1:
        yield spurious_failures(summary)
    for name, benchmark in summary.benchmarks.items():
        metric = main_metric(benchmark.figures)
        if metric is None:
            continue
        for kind, by_group in benchmark.groups.items():
            yield f"{name} by {kind}: {metric.name}"
            for group, figures in by_group.items():
                if estimate := figures.get(metric.name):
                    named, value = (
                        padded(clean(group, 40), 40),
                        metric.show(estimate.value),
                    )
                    yield f"  {named} {value:>6}  {metric.interval(estimate)}, n = {estimate.n}"
