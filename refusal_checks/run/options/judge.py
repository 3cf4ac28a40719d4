"""The options on how far a run's judge is trusted: its check, its calibration, human labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from refusal_checks.core.errors import UserError
from refusal_checks.judges.trust import calibration
from refusal_checks.judges.trust.calibration import Calibration
from refusal_checks.judges.trust.floors import JudgeFloors

if TYPE_CHECKING:
    from refusal_checks.judges.trust.human_labels import HumanLabels


@dataclass(frozen=True)
class Trust:
    """What a run knows of its judge besides its verdicts.

    Attributes:
        floors: on the canary; None where it is not put to it.
        allow_untrusted: decide gates all the same.
        calibration, calibration_file: its errors against people, and where they stand.
        labels: of a random part of this run's answers.
        repeats: how often each answer is judged, to see how far the judge agrees with itself.
    """

    floors: JudgeFloors | None = None
    allow_untrusted: bool = False
    calibration: Calibration | None = None
    calibration_file: Path | None = None
    labels: HumanLabels | None = None
    repeats: int = 1


def add(group: pytest.OptionGroup) -> None:
    """Declare the options."""
    add = group.addoption
    add(
        "--allow-untrusted-judge",
        action="store_true",
        help="decide gates though the judge fails its own check",
    )
    add(
        "--calibration",
        metavar="FILE",
        help="the judge's errors, as `refusal-checks calibrate --out` wrote them: corrected rates "
        "beside the raw ones",
    )
    add(
        "--human-labels",
        metavar="FILE",
        help="labels of a random part of this run's answers, from `refusal-checks "
        "sample-for-labels`: rates and intervals as people would see them",
    )
    add(
        "--judge-repeats",
        metavar="R",
        type=int,
        default=1,
        help="judge each answer R times with other seeds: how many verdicts flip (1)",
    )


def read(config: pytest.Config, floors: JudgeFloors | None) -> Trust:
    """The options' values; their files are read.

    Raises:
        UserError: a file cannot be used, or an option's value.
    """
    from refusal_checks.judges.trust import human_labels  # HTTP, which collection need not import

    folder = config.invocation_params.dir
    named, labels = config.getoption("calibration"), config.getoption("human_labels")
    path = folder / named if named else None
    repeats = config.getoption("judge_repeats")
    if repeats < 1:
        raise UserError(f"--judge-repeats {repeats}: must be at least 1")
    if repeats > 1 and config.getoption("stop_early"):
        raise UserError("--judge-repeats needs whole benchmarks: no --stop-early with it")
    return Trust(
        floors=floors if floors and floors.figures else None,
        allow_untrusted=config.getoption("allow_untrusted_judge"),
        calibration=calibration.read(path) if path else None,
        calibration_file=path,
        labels=human_labels.read_labels(folder / labels) if labels else None,
        repeats=repeats,
    )
