"""Reservations about a run whose gates all passed, a function for each subject.

Each reservation is one line: what to do or what was not shown, and why. ``reservations`` sets
their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from refusal_checks.core.text import clean, count, in_a_row
from refusal_checks.core.verdicts import Binary
from refusal_checks.gates.gate import Outcome
from refusal_checks.gates.sentences import reversed_bound
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS
from refusal_checks.results.benchmark_summary import BenchmarkSummary
from refusal_checks.results.summary import RunSummary

LEAST_PROMPTS = 20
"""Fewest prompts for which a figure alone is a plain pass, though its interval does not decide."""

ONE_IN = 20
"""Report a peculiarity if at least one in so many prompts, answers or choices shows it."""

LOOKED_AT = 1000
"""Answers of a benchmark whose language was detected; see ``BenchmarkSummary.unmeasured``."""


@dataclass(frozen=True)
class _Run:
    """A run's summary, and the verdicts that reservations are about.

    Attributes:
        verdicts: those that decided something.
        own: those on the candidate's figures, without gates on invalid answers or on disagreement
        between judges.
    """

    summary: RunSummary
    verdicts: Sequence[Verdict]
    own: Sequence[Verdict]


def reservations(summary: RunSummary, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield the reservations about a run, from its summary.

    Args:
        verdicts: those that decided something.
    """
    own = [
        verdict
        for verdict in verdicts
        if METRICS[verdict.gate.metric].group != "judging"
    ]
    run = _Run(summary, verdicts, own)
    yield from _too_close_to_call(run)
    yield from _other_models(run)
    yield from _doubtful_bounds(run)
    yield from _judge_of_refusals(run)
    yield from _other_judges(run)
    yield from _gates_that_cannot_fail(run)
    yield from _unjudged_answers(run)
    yield from _parts_of_benchmarks(run)
    for name, figures in summary.benchmarks.items():
        yield from _peculiar_answers(name, figures)
    yield from _benchmarks_without_gates(run)
    yield from _baseline(run)
    yield from _earlier_attempts(run)
    yield from _gates_left_out(run)


def _too_close_to_call(run: _Run) -> Iterator[str]:
    """Gates that passed although their interval contains the bound.

    A gate that its run file decides by the figure alone is a plain pass from ``LEAST_PROMPTS``
    prompts on.
    """
    undecided = 0
    on_few: list[Verdict] = []
    for verdict in run.own:
        if not verdict.passed or verdict.outcome is not Outcome.INCONCLUSIVE:
            continue
        gate = verdict.gate
        data = run.summary.manifest.data.get(gate.benchmark)
        is_partial = data is not None and data.is_partial
        if verdict.warns or gate.decision == "confident" or gate.has_margins:
            undecided += 1
        elif verdict.estimate.n < LEAST_PROMPTS and not is_partial:
            on_few.append(verdict)
    if undecided:
        yield f"{count(undecided, 'gate')} passed although too close to call"
    if on_few:
        smallest = min(on_few, key=lambda verdict: verdict.estimate.n)
        which = f"{smallest.gate.id} has {smallest.estimate.n}"
        passed = (
            f"{count(len(on_few), 'gate')} passed on fewer than {LEAST_PROMPTS} prompts"
        )
        yield clean(f"add prompts: {passed}, too few to decide ({which})", 200)


def _other_models(run: _Run) -> Iterator[str]:
    """Servers that claim to be another model than the one asked for."""
    for line in run.summary.manifest.misnamed:
        if "says that" in line:
            yield clean(line, 300)


def _doubtful_bounds(run: _Run) -> Iterator[str]:
    """Bounds on the wrong side, and figures with too little evidence."""
    for verdict in run.own:
        hint = reversed_bound(verdict)
        if hint:
            yield clean(f"{verdict.gate.id}: {hint}", 200)
    doubted = [verdict for verdict in run.own if verdict.passed and verdict.caution]
    if doubted:
        first = doubted[0]
        others = f" (and {len(doubted) - 1} more like it)" if len(doubted) > 1 else ""
        yield clean(f"{first.gate.id}: {first.caution}{others}", 200)


def _judge_of_refusals(run: _Run) -> Iterator[str]:
    """Gates that rest on a judge whose check is weak or missing."""
    summary = run.summary
    uses = {
        verdict.use
        for verdict in run.own
        if Binary in METRICS[verdict.gate.metric].reads
        and verdict.gate.benchmark not in summary.untested_scales
    }
    if summary.judge and "raw" in uses:
        misread = summary.judge.misread()
        if misread:
            yield clean(misread, 400)
    if summary.untested and "raw" in uses:
        yield f"{summary.untested}, or give --human-labels"
    if summary.unverified:
        yield clean(summary.unverified, 300)


def _other_judges(run: _Run) -> Iterator[str]:
    """Judges that decide a gate on something other than refusal, which the canary cannot test."""
    summary = run.summary
    scales = summary.untested_scales
    decided = dict.fromkeys(
        verdict.gate.benchmark for verdict in run.own if verdict.use == "raw"
    )
    findings = {name: summary.rated[name] for name in decided if name in summary.rated}
    untested = [
        scales[name] for name in decided if name in scales and name not in findings
    ]
    if untested:
        yield f"the judge of {in_a_row(untested)} was not tested"
    for finding in dict.fromkeys(findings.values()):
        yield clean(finding, 300)
    for name in decided:
        figures = summary.benchmarks.get(name)
        if figures is None:
            continue
        if name in scales and figures.one_value:
            answers = count(figures.answers, "answer")
            value = clean(figures.one_value, 60)
            yield f"all {answers} to {name} have the same verdict: {value}"
        by_judge = figures.read_by.get("judge", 0)
        choices = sum(figures.read_by.values())
        if _are_many(by_judge, choices):
            yield (
                f"the judge that read {by_judge} of {choices} choices in {name} was not tested"
            )


def _gates_that_cannot_fail(run: _Run) -> Iterator[str]:
    idle = [verdict.gate for verdict in run.verdicts if verdict.gate.allows_all]
    if idle:
        where = f"{idle[0].id} of {Path(idle[0].source).name} allows every figure"
        yield clean(f"{count(len(idle), 'gate')} cannot fail: {where}", 200)


def _unjudged_answers(run: _Run) -> Iterator[str]:
    if any(verdict.invalid.decide for verdict in run.own):
        yield "answers that could not be judged decide a gate"


def _parts_of_benchmarks(run: _Run) -> Iterator[str]:
    """Benchmarks that were evaluated only in part."""
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
    yield f"only {data.prompts} of {data.usual} prompts of {name}{others}"


def _peculiar_answers(name: str, figures: BenchmarkSummary) -> Iterator[str]:
    """Repeated prompts, identical answers, and languages in which the judge was not measured."""
    if _are_many(figures.repeats, figures.prompts):
        yield (
            f"{figures.repeats} of {figures.prompts} prompts of {name} repeat another: remove "
            "these, which make its intervals too narrow"
        )
    if figures.alike:
        quoted = ""
        if figures.alike_answer:
            quoted = f": '{clean(figures.alike_answer, 60)}'"
        yield (
            f"{figures.alike} of {figures.prompts} prompts of {name} have the same answer, "
            f"perhaps an error's text{quoted}"
        )
    unmeasured = sum(figures.unmeasured.values())
    if _are_many(unmeasured, min(figures.answers, LOOKED_AT)):
        codes = ", ".join(sorted(figures.unmeasured)[:5])
        yield clean(
            f"the judge was not measured in {codes} ({unmeasured} answers to {name})",
            200,
        )


def _benchmarks_without_gates(run: _Run) -> Iterator[str]:
    """Benchmarks that were evaluated but have no gate on the candidate's behaviour."""
    gated = {verdict.gate.benchmark for verdict in run.own}
    ungated = {verdict.gate.benchmark for verdict in run.verdicts} - gated
    if ungated:
        yield f"no gate on what the candidate does in {', '.join(sorted(ungated))}"


def _baseline(run: _Run) -> Iterator[str]:
    """Changes that were not checked, or less strictly than in the baseline's run."""
    skipped = [
        verdict.gate for verdict in run.summary.verdicts.values() if verdict.skipped
    ]
    compared = [gate for gate in skipped if not gate.is_total]
    if compared:
        gates = count(len(compared), "gate")
        yield f"max_drop and max_rise of {gates} were not checked: no --baseline"
    total = [gate for gate in skipped if gate.is_total]
    if total:
        gates = count(len(total), "gate")
        yield f"max_total_drop and max_total_rise of {gates} were not checked: no anchor"

    looser: dict[str, str] = {}
    differences: list[str] = []
    for verdict in run.own:
        comparison = verdict.comparison
        if comparison is None:
            continue
        if comparison.looser:
            looser[verdict.gate.id] = "; ".join(comparison.looser)
        differences += comparison.differences
    if looser:
        gate, allowed = next(iter(looser.items()))
        others = ""
        if len(looser) > 1:
            others = f" (and {count(len(looser) - 1, 'other gate')})"
        yield clean(f"{gate} allows more than the baseline's: {allowed}{others}", 200)
    if differences:
        yield clean(
            f"the baseline was made under other conditions: {differences[0]}", 200
        )


def _earlier_attempts(run: _Run) -> Iterator[str]:
    """Earlier failed attempts: enough attempts pass by chance."""
    attempts = run.summary.manifest.attempts
    if attempts is None or not attempts.failed:
        return
    if attempts.number > attempts.failed:
        yield (
            f"attempt {attempts.number} of this candidate: {attempts.failed} before it failed"
        )
    else:  # it repeats one of them, with other bounds perhaps
        runs = count(attempts.failed, "earlier run")
        yield f"{runs} of this candidate failed these gates"


def _gates_left_out(run: _Run) -> Iterator[str]:
    selection = run.summary.manifest.gates
    left_out = selection.known - selection.selected
    if left_out:
        yield f"{left_out} of {count(selection.known, 'gate')} in the run files were not run"


def _are_many(part: int, whole: int) -> bool:
    return part > 0 and ONE_IN * part >= whole
