"""``refusal-checks rationales``: what ``--rationales offenders`` saves and changes for a judge."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from refusal_checks.cli._echo import echo
from refusal_checks.cli._judges import JudgeOptions, with_judge_options
from refusal_checks.core.errors import UserError
from refusal_checks.core.settings import Limits
from refusal_checks.core.text import clean
from refusal_checks.models.spec import Replay
from refusal_checks.reports import both_ways as report
from refusal_checks.results import run_folder
from refusal_checks.run import both_ways
from refusal_checks.run.interrupts import watched
from refusal_checks.run.options import models as model_options
from refusal_checks.run.options.command_line import Options


def add(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(rationales)


@with_judge_options
def rationales(
    judge: Annotated[str, typer.Option(metavar="MODEL", help="The judge, as in a gate run.")],
    recording: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Recorded answers to judge besides the canary, with their prompts (repeatable).",
        ),
    ] = None,
    differences: Annotated[
        int, typer.Option(min=0, help="Most exchanges to show that are judged differently.")
    ] = 20,
    engine: Annotated[str | None, typer.Option(help="As in a gate run.")] = None,
    engine_command: Annotated[str | None, typer.Option(help="As in a gate run.")] = None,
    in_flight: Annotated[int, typer.Option(min=1, help="Answers to judge at the same time.")] = 64,
    *,
    judge_options: JudgeOptions,
) -> None:
    """Judge the canary, and recorded answers, with reasons first and with the verdict alone."""
    named = {"judge": [judge], "engine": engine, "engine_command": engine_command}
    given = JudgeOptions({**judge_options.values, **named})
    if given.getoption("rationales"):
        raise UserError("--rationales: leave it out: this command measures both ways")
    judges = model_options.read_judges(given)
    model_options.require_use(given.sampling, given.cascade, 1, judges)
    place = Path()
    settings = Options(
        candidate=Replay("replay:recorded", place),
        judges=judges,
        store=place,
        fresh=True,
        judge_sampling=given.sampling,
        rationales="offenders",
        limits=Limits(in_flight=in_flight),
    )
    folder = run_folder.usual_root() / f"{datetime.now().astimezone():%Y%m%d-%H%M%S}-rationales"
    with watched():
        found = both_ways.measure(recording or (), settings, folder, _say)
    for line in report.to_markdown(found, differences):
        echo(line)


def _say(line: str) -> None:
    echo(clean(line, 500), err=True)
