"""May it ship? The answer that exit code, terminal, summary, HTML and GitHub give alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from refusal_checks.core.text import clean, count, in_a_row
from refusal_checks.core.verdicts import Binary
from refusal_checks.gates.gate import Outcome, Waiver
from refusal_checks.gates.sentences import finding, reversed_bound, worst_first
from refusal_checks.gates.verdict import Verdict
from refusal_checks.metrics import METRICS
from refusal_checks.results.summary import RunSummary

Answer = Literal["yes", "doubt", "waived", "open", "no"]

HEADLINES: dict[Answer, str] = {
    "no": "No",
    "open": "Not decided",
    "waived": "Yes, with waived gates",
    "doubt": "Yes, with reservations",
    "yes": "Yes",
}
"""The weightiest answer first."""


LEAST = 20
"""Fewest prompts on which a figure alone makes a plain pass where its interval does not decide."""

NAMED = 2  # most failed gates that a reason names


@dataclass(frozen=True)
class ReleaseDecision:
    """Whether a candidate may ship by its gates, and why."""

    # "no" if a gate failed, "open" if one could not be evaluated or the judge is not trusted,
    # "waived" if all that failed are waived, "doubt" if all passed with reservations, else "yes"
    answer: Answer
    reasons: tuple[str, ...]  # the weightiest first, at least one
    decisive: tuple[str, ...]  # those of them that the answer rests on, at least one
    reservations: tuple[
        str, ...
    ] = ()  # what speaks against relying on a yes, as part of reasons
    waivers: str = (
        ""  # how many gates are waived, until when and by whom; empty without any
    )
    stored: str = (
        ""  # how many answers are from the store, and of which date; empty without any
    )

    @property
    def headline(self) -> str:
        return (
            f"Yes, with {self.waivers}"
            if self.answer == "waived"
            else HEADLINES[self.answer]
        )

    @property
    def may_ship(self) -> bool:
        return self.answer in ("yes", "doubt", "waived")

    @property
    def line(self) -> str:
        return f"{self.headline}: {self._why}"

    @property
    def _why(self) -> str:
        return f"{'; '.join(self.decisive)}{self.stored and f' ({self.stored})'}"

    @property
    def question(self) -> str:
        """Question and answer in one line, for the end of a terminal's output."""
        answer, comma, more = self.headline.partition(",")
        return f"May it ship? {answer.upper()}{comma}{more}: {self._why}"


def release_decision(summary: RunSummary) -> ReleaseDecision:
    reasons = sorted(
        _reasons(summary), key=lambda reason: list(HEADLINES).index(reason[0])
    )
    answer = reasons[0][0]
    weighty = {"no", "open"} if answer == "no" else {answer}
    decisive = tuple(text for weight, text in reasons if weight in weighty)
    waivers = ""
    if waived := _waived(
        summary.verdicts.values()
    ):  # of several, the one that ends first is named
        first = min(waived.values(), key=lambda waiver: waiver.until)
        several = len({waiver.in_words for waiver in waived.values()}) > 1
        how = ", the first" if several else ""
        waivers = (
            f"{count(len(waived), 'gate')} waived{how} {clean(first.in_words, 60)}"
        )
    return ReleaseDecision(
        answer,
        reasons=tuple(text for _, text in reasons),
        decisive=decisive,
        reservations=tuple(text for weight, text in reasons if weight == "doubt"),
        waivers=waivers,
        stored=summary.manifest.stored,
    )


def explains(summary: RunSummary, gate: str | None, phase: str) -> bool:
    """True if a run's answer takes into account that a test failed.

    Args:
        gate: the gate that the test asked for, by id; None if it asked for none of this run's.
        phase: ``setup`` if the test ended before it could look at the verdict; else ``call``.
    """
    if gate is None:
        is_open = summary.failure or summary.errors or summary.unusable
        return bool(is_open or (summary.judge and not summary.judge.is_trusted))
    verdict = summary.verdicts.get(gate)
    if verdict is None:
        return gate in summary.errors or bool(summary.failure)
    return phase == "call" and not verdict.passed


def weightiest(answers: Iterable[ReleaseDecision]) -> ReleaseDecision:
    """Of several runs' answers the one that all of them together get."""
    order = list(HEADLINES)
    return min(answers, key=lambda each: order.index(each.answer))


def together(summaries: Iterable[RunSummary]) -> str:
    """The weightiest of several runs' answers, in a few words."""
    return weightiest(map(release_decision, summaries)).headline


def _waived(verdicts: Iterable[Verdict]) -> dict[str, Waiver]:
    """The waivers that a run needed, by gate."""
    return {v.gate.id: v.gate.waiver for v in verdicts if v.waived and v.gate.waiver}


def _reasons(summary: RunSummary) -> Iterator[tuple[Answer, str]]:
    verdicts = [verdict for verdict in summary.verdicts.values() if not verdict.is_idle]
    failed = [verdict for verdict in verdicts if verdict.fails]
    waived = _waived(verdicts)
    total = len(summary.verdicts) + len(summary.errors)
    if failed:
        named = ", ".join(map(finding, worst_first(failed)[:NAMED]))
        more = f" and {len(failed) - NAMED} more" * (len(failed) > NAMED)
        yield "no", f"{len(failed)} of {count(total, 'gate')} failed: {named}{more}"
    yield from (("open", clean(advice, 400)) for advice in summary.unusable)
    if summary.errors:
        yield "open", f"{count(len(summary.errors), 'gate')} could not be evaluated"
    elif summary.failure:
        yield "open", "the evaluation ended early"
    if summary.unexplained:
        first, *others = summary.unexplained
        also = f" and {len(others)} more" if others else ""
        yield "open", clean(f"{first}{also}", 300)
    if not verdicts and not summary.errors:
        gates = summary.manifest.gates
        how = "selected" if gates.known and not gates.selected else "decided"
        yield "open", f"no gate was {how}"
    if summary.judge and not summary.judge.is_trusted:
        yield "open", "the judge failed its check"
    yield from (("doubt", reason) for reason in _doubts(summary, verdicts))
    for gate, waiver in waived.items():
        when = (
            f" {waiver.in_words}" if len(waived) > 1 else ""
        )  # else the headline says it
        yield (
            "waived",
            clean(f"{gate} failed, and is waived{when}: {waiver.reason}", 200),
        )
    passed = len(verdicts) - len(failed) - len(waived)
    if passed:
        every = "the gate" if total == 1 else f"all {total} gates"
        shown = every if passed == total else f"{passed} of {count(total, 'gate')}"
        yield "yes", f"{shown} passed"


def _doubts(summary: RunSummary, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Reservations about a run whose gates all passed, from what it says of the candidate.

    Invalid answers and judges that disagree are no figures of the candidate: they have gates. A
    gate that is decided by its figure alone, as its file asks, is a plain pass from ``LEAST``
    prompts on.
    """
    own = [each for each in verdicts if METRICS[each.gate.metric].group != "judging"]
    unsure = [
        each for each in own if each.passed and each.outcome is Outcome.INCONCLUSIVE
    ]
    parts = {
        name: each for name, each in summary.manifest.data.items() if each.is_partial
    }
    open_ones = few = 0
    smallest = None
    for each in unsure:
        if each.warns or each.gate.decision == "confident" or each.gate.has_margins:
            open_ones += 1
        elif each.estimate.n < LEAST and each.gate.benchmark not in parts:
            few += 1
            if smallest is None or each.estimate.n < smallest.estimate.n:
                smallest = each
    if open_ones:
        yield f"{count(open_ones, 'gate')} passed although too close to call"
    if smallest:
        which = f"{smallest.gate.id} has {smallest.estimate.n}"
        passed = f"{count(few, 'gate')} passed on fewer than {LEAST} prompts"
        yield clean(f"add prompts: {passed}, too few to decide ({which})", 200)
    yield from (
        clean(each, 300) for each in summary.manifest.misnamed if "says that" in each
    )
    for each in own:
        if hint := reversed_bound(each):
            yield clean(f"{each.gate.id}: {hint}", 200)
    if doubted := [each for each in own if each.passed and each.caution]:
        others = f" (and {len(doubted) - 1} more like it)" * (len(doubted) > 1)
        yield clean(f"{doubted[0].gate.id}: {doubted[0].caution}{others}", 200)
    of_judge = {
        v.use
        for v in own
        if Binary in METRICS[v.gate.metric].reads
        and v.gate.benchmark not in summary.untested_scales
    }
    if summary.judge and "raw" in of_judge and (misread := summary.judge.misread()):
        yield clean(misread, 400)
    if summary.untested and of_judge & {"raw", "cascade"}:
        yield f"{summary.untested}, or give --human-labels"
    if summary.unverified:
        yield clean(summary.unverified, 300)
    yield from _untested_scales(summary, own)
    if idle := [each.gate for each in verdicts if each.gate.allows_all]:
        where = f"{idle[0].id} of {Path(idle[0].source).name} allows every figure"
        yield clean(f"{count(len(idle), 'gate')} cannot fail: {where}", 200)
    if any(each.flips for each in own):
        yield "answers that could not be judged decide a gate"
    if parts:
        name, first = next(iter(parts.items()))
        more = len(parts) - 1
        others = f" and a part of {count(more, 'other benchmark')}" if more else ""
        yield f"only {first.prompts} of {first.usual} prompts of {name}{others}"
    for name, found in summary.benchmarks.items():
        if 20 * found.repeats >= found.prompts > 0:
            again = (
                f"{found.repeats} of {found.prompts} prompts of {name} repeat another"
            )
            yield f"{again}: remove these, which make its intervals too narrow"
        if found.alike:
            said = found.alike_answer and f": '{clean(found.alike_answer, 60)}'"
            same = f"{found.alike} of {found.prompts} prompts of {name} have the same answer"
            yield f"{same}, perhaps an error's text{said}"
        seen, unknown = min(found.answers, 1000), sum(found.unmeasured.values())
        if 20 * unknown >= seen > 0:
            codes = ", ".join(sorted(found.unmeasured)[:5])
            yield clean(
                f"the judge was not measured in {codes} ({unknown} answers to {name})",
                200,
            )
    told = {each.gate.benchmark for each in own}
    if untold := sorted({each.gate.benchmark for each in verdicts} - told):
        yield f"no gate on what the candidate does in {', '.join(untold)}"
    for total, what in ((False, "--baseline"), (True, "anchor")):
        gates = (each.gate for each in summary.verdicts.values() if each.skipped)
        if skipped := sum(gate.is_total is total for gate in gates):
            names = (
                "max_total_drop and max_total_rise"
                if total
                else "max_drop and max_rise"
            )
            yield f"{names} of {count(skipped, 'gate')} were not checked: no {what}"
    if looser := [each for each in own if each.comparison and each.comparison.looser]:
        allowed = "; ".join(looser[0].comparison.looser) if looser[0].comparison else ""
        others = f" (and {count(len(looser) - 1, 'other gate')})" * (len(looser) > 1)
        yield clean(
            f"{looser[0].gate.id} allows more than the baseline's: {allowed}{others}",
            200,
        )
    differences = [
        each for v in own if v.comparison for each in v.comparison.differences
    ]
    if differences:
        yield clean(
            f"the baseline was made under other conditions: {differences[0]}", 200
        )
    if (tried := summary.manifest.attempts) and tried.failed:
        if tried.number > tried.failed:
            yield f"attempt {tried.number} of this candidate: {tried.failed} before it failed"
        else:  # it repeats one of them, with other bounds perhaps
            yield f"{count(tried.failed, 'earlier run')} of this candidate failed these gates"
    selection = summary.manifest.gates
    left_out = selection.known - selection.selected
    if left_out:
        yield f"{left_out} of {count(selection.known, 'gate')} in the run files were not run"


def _untested_scales(summary: RunSummary, own: Sequence[Verdict]) -> Iterator[str]:
    """Reservations about judges that no check of refusals is about, if they decide a gate."""
    decided = dict.fromkeys(
        v.gate.benchmark for v in own if v.use in ("raw", "cascade")
    )
    scales = summary.untested_scales
    asked = {name: summary.rated[name] for name in decided if name in summary.rated}
    if untested := [
        scales[name] for name in decided if name in scales and name not in asked
    ]:
        yield f"the judge of {in_a_row(untested)} was not tested"
    yield from (clean(said, 300) for said in dict.fromkeys(asked.values()))
    for name in decided:
        found = summary.benchmarks.get(name)
        if found is None:
            continue
        if name in scales and found.one_value:
            same = (
                f"all {count(found.answers, 'answer')} to {name} have the same verdict"
            )
            yield f"{same}: {clean(found.one_value, 60)}"
        read, total = found.read_by.get("judge", 0), sum(found.read_by.values())
        if 20 * read >= total > 0:
            yield f"the judge that read {read} of {total} choices in {name} was not tested"
