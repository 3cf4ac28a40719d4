"""Which judges were asked: where the bundled one was measured, and how often a second one was."""

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
