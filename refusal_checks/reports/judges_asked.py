"""What judges were asked: the bundled one's scope, a second one's share, reasons afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from refusal_checks.core.text import clean, count
from refusal_checks.models.demo import BUNDLED
from refusal_checks.results.summary import BenchmarkSummary, RunSummary

SCOPE = (
    "judge bundled: measured on English XSTest by people's labels, and on this project's own "
    "English and Chinese answers; not for degrees, ratings or other languages"
)
"""Where the bundled judge was measured, for the end of every run that asks it."""


def scope(runs: Iterable[RunSummary]) -> Iterator[str]:
    """One line if a run asked the bundled judge."""
    if any(BUNDLED in run.manifest.models.judges for run in runs):
        yield SCOPE


def second(name: str, summary: BenchmarkSummary) -> Iterator[str]:
    """One line on how often the second judge of a cascade was asked; none without a cascade."""
    asked = summary.second
    if asked is None:
        return
    judge, first = clean(asked.judge, 60), clean(asked.first, 60)
    total = f"asked about {asked.asked} of {count(asked.answers, 'answer')}"
    line = f"{name}: {judge} was {total}: {asked.unsure} of which {first} was unsure"
    if asked.prompts:
        line += (
            f", {asked.sampled} more of {count(asked.prompts, 'prompt')} drawn at random "
            f"(other verdicts: {asked.differs})"
        )
    yield line


def reasons(name: str, summary: BenchmarkSummary) -> Iterator[str]:
    """One line on the reasons of judges that gave verdicts alone; none of others."""
    found = summary.reasons
    if found is None:
        return
    if not found.asked:
        yield f"{name}: verdicts without reasons, and no ways of refusing are counted"
        return
    line = f"{name}: verdicts alone; no ways of refusing are counted, since no answer has a verdict"
    if found.sampled:
        drawn = f"a sample of {found.sampled} of {count(found.answers, 'answer')}"
        line = f"{name}: verdicts alone; ways of refusing are counted in {drawn}"
    if found.given:
        same = f"{found.agree} of {found.given} come with the same verdict"
        line += f", whose reasons were asked for afterwards: {same}"
    if found.missing:
        line += (
            f"; {count(found.missing, 'verdict')} to be shown with reasons had none: the judge "
            "failed, or no engine was started for it"
        )
    yield line
