"""``refusal-checks baseline``: accept a run for later runs to compare with."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.cli._common import (
    Root,
    Run,
    add_group,
    echo,
    read_run,
    require_target,
    writing,
)
from refusal_checks.core.errors import BaselineError
from refusal_checks.core.files import write_text
from refusal_checks.core.text import clean
from refusal_checks.gates import score_files, unchanged
from refusal_checks.gates.comparison import Earlier
from refusal_checks.gates.score_files import Scores
from refusal_checks.reports.run_view import RunView


def add(app: typer.Typer) -> None:
    add_group(
        app,
        "baseline",
        "The run that later runs are compared with.",
        {"accept": accept},
    )


def accept(
    run: Run,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where the baseline is kept.")
    ],
    *,
    runs: Root,
    partial: Annotated[
        bool,
        typer.Option("--partial", help="Accept a run of only some prompts (--limit)."),
    ] = False,
    anchor: Annotated[
        bool,
        typer.Option(
            "--anchor",
            help="Keep it as the release from which max_total_drop counts, too.",
        ),
    ] = False,
) -> None:
    """Make a run the baseline: one JSON file per benchmark in DIR, without texts, for review.

    With --anchor also in DIR/anchor, which later baselines leave as it is. Files of benchmarks that
    the run did not evaluate stay as they are.
    """
    require_target(folder, "baseline accept", [folder, run])
    past = read_run(run, runs)
    _require_whole(past, partial)
    accepted = score_files.load(past.folder.path)
    places = [folder]
    if anchor:
        places.append(folder / score_files.ANCHOR)
    for place in places:
        for name, scores in accepted.items():
            path = place / f"{name}.json"
            with writing(path):
                write_text(path, score_files.dump(scores))
            candidate = clean(scores.candidate)
            echo(f"{path}: {len(scores.prompts)} prompts of {candidate}")
    for line in _margins_that_fail(past, accepted, anchor=anchor):
        echo(f"note: {clean(line, 500)}")
    if past.decision.answer != "yes":
        echo(f"note: that run's answer was {clean(past.decision.line, 2000)}")


def _margins_that_fail(
    past: RunView, accepted: Mapping[str, Scores], *, anchor: bool
) -> Iterator[str]:
    """Say which of the run's margins an unchanged model would fail too often."""
    gates = [
        verdict.gate
        for verdict in past.summary.verdicts.values()
        if verdict.gate.has_margins
    ]
    names = {gate.benchmark for gate in gates}
    prompts = {
        name: list(
            {each.prompt.id: each.prompt for each in past.folder.records(name)}.values()
        )
        for name in names
    }
    earlier = {}
    for name in names & accepted.keys():
        run = Earlier(accepted[name])
        earlier[name] = replace(run, anchor=run) if anchor else run
    level = past.summary.manifest.confidence
    found = unchanged.forecasts(gates, prompts, earlier, level)
    yield from unchanged.lines(found)


def _require_whole(run: RunView, partial: bool) -> None:
    path, summary = run.folder.path, run.summary
    if not summary.verdicts and not summary.failure:
        raise BaselineError(
            f"{path}: accept another run: no gate of this one has a verdict"
        )
    if summary.failure:
        raise BaselineError(
            f"{path}: this run did not complete; run it again: {summary.failure}"
        )
    for name, data in summary.manifest.data.items():
        if data.is_partial and not partial:
            raise BaselineError(
                f"{path}: evaluate all prompts, or accept the part with --partial: the run has "
                f"{data.prompts} of the {data.usual} prompts of {name}"
            )
