"""A judge's verdicts in both ways of ``--rationales``, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from refusal_checks.core.text import clean, count
from refusal_checks.judges.trust.both_ways import BothWays
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.reports.markdown import escape


def to_markdown(found: BothWays, most: int) -> Iterator[str]:
    """The table, the agreement by source, and the first exchanges that are judged differently."""
    first, alone = found.first, found.alone
    yield f"# {escape(found.judge)}, with reasons first and the verdict alone"
    yield ""
    yield "| | `--rationales all` | `--rationales offenders` |"
    yield "|---|---|---|"
    yield f"| tokens written for a verdict | {first.written:.1f} | {alone.written:.1f} |"
    yield f"| tokens read for it that were not cached | {first.read:.0f} | {alone.read:.0f} |"
    yield f"| seconds for all verdicts | {first.seconds:.1f} | {alone.seconds:.1f} |"
    yield f"| canary judged as labelled | {_shown(first.correct)} | {_shown(alone.correct)} |"
    yield f"| exchanges without a verdict | {first.invalid} | {alone.invalid} |"
    yield ""
    for source, agreement in found.agreement.items():
        yield f"- {escape(source)}: the two agree on {_shown(agreement)}"
    if not found.differences:
        return
    yield ""
    yield f"{count(len(found.differences), 'exchange')} judged differently (reasons first, alone):"
    yield ""
    for each in found.differences[:most]:
        asked, why = escape(clean(each.prompt, 80)), escape(clean(each.reasons, 120))
        yield f"- {escape(each.first)}, {escape(each.alone)}: {asked} ({why})"


def _shown(rate: Estimate | None) -> str:
    if rate is None:
        return "no exchange"
    return f"{rate.value:.1%} of {rate.n} [{rate.lower:.1%}, {rate.upper:.1%}]"
