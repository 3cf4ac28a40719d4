"""Other runs: the baseline's, and the one that the run files describe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from refusal_checks.core.text import count, in_a_row
from refusal_checks.results.reservations.reservation import (
    GatedRun,
    Reservation,
    reservation,
)


def baseline(run: GatedRun) -> Iterator[Reservation]:
    """Changes that were not checked, or less strictly than in the baseline's run."""
    bounded = {verdict.gate.benchmark for verdict in run.own if verdict.gate.has_bounds}
    skipped = [
        verdict.gate for verdict in run.summary.verdicts.values() if verdict.skipped
    ]
    if skipped:
        gates = count(len(skipped), "gate")
        names = in_a_row(gate.benchmark for gate in skipped)
        found = reservation(
            "no-baseline",
            f"give a --baseline that has {names}: max_drop and max_rise of {gates} were not "
            "checked",
        )
        # Beside an absolute bound a first release has been shown to be good enough.
        if all(gate.benchmark in bounded for gate in skipped):
            found = replace(found, kind="note")
        yield found

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
        yield reservation(
            "looser-bounds",
            f"{gate} allows more than the baseline's: {allowed}{others}",
        )
    if differences:
        yield reservation(
            "baseline-conditions",
            f"the baseline was made under other conditions: {differences[0]}",
        )


def another_seed(run: GatedRun) -> Iterator[Reservation]:
    """A seed that was chosen for this run: of enough seeds, chance passes one."""
    manifest = run.summary.manifest
    seed = manifest.sampling.get("seed", manifest.usual_seed)
    if seed == manifest.usual_seed or manifest.candidate.startswith("replay:"):
        return
    yield reservation(
        "another-seed",
        f"the answers were drawn with seed {seed}; the run file's is {manifest.usual_seed}",
    )
