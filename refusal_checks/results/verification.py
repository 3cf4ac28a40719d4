"""Whether a run's folder is as the run wrote it, and its figures are those of its records."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path

from refusal_checks.core.errors import BaselineError, DataError
from refusal_checks.core.text import clean
from refusal_checks.gates import score_files
from refusal_checks.metrics.statistics.intervals import Estimate
from refusal_checks.results.benchmark_summary import summarise
from refusal_checks.results.run_folder import RunFolder


def faults(folder: RunFolder, baseline: Path | None = None) -> Iterator[str]:
    """Yield everything that is wrong with a run, in words.

    Args:
        baseline: a folder of baselines that should have been accepted from the run.
    """
    try:
        damage = [f"{path}: {why}" for path, why in folder.damage()]
        yield from damage
        if not damage:
            yield from _wrong_figures(folder)
        if baseline:
            yield from _other_baselines(folder, baseline)
    except (DataError, BaselineError) as fault:
        yield str(fault)


def _wrong_figures(folder: RunFolder) -> Iterator[str]:
    """Compute figures from the records; yield those for which the summary has others.

    Digests say that files belong together, and anybody can write them. Figures say more.
    """
    summary = folder.summary()
    for name, written in summary.benchmarks.items():
        if name not in folder.benchmarks:  # a summary that was copied alone
            continue
        records = list(folder.records(name))
        figures = summarise(records, summary.manifest.confidence).figures
        for metric in sorted(figures.keys() | written.figures.keys()):
            first, second = written.figures.get(metric), figures.get(metric)
            if not _agree(first, second):
                yield (
                    f"{folder.summary_file}: {clean(name)}: {metric} is {_shown(first)}, and by "
                    f"its records {_shown(second)}"
                )


def _agree(first: Estimate | None, second: Estimate | None) -> bool:
    if first is None or second is None:
        return first is second
    pairs = zip(astuple(first), astuple(second), strict=True)
    return all(math.isclose(one, other, abs_tol=1e-6) for one, other in pairs)


def _shown(figure: Estimate | None) -> str:
    if figure is None:
        return "absent"
    return f"{figure.value:.4g} [{figure.lower:.4g}, {figure.upper:.4g}], n {figure.n}"


def _other_baselines(folder: RunFolder, baseline: Path) -> Iterator[str]:
    digest = folder.seal()
    for name, scores in score_files.load(baseline).items():
        if scores.accepted != digest:
            yield f"{baseline}: {clean(name)} was not accepted from this run"
