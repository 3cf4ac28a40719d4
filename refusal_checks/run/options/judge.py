"""The options on trust in the judge: its check, its calibration, human labels."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from refusal_checks.core.errors import CalibrationError, UserError
from refusal_checks.judges.trust import calibration
from refusal_checks.judges.trust.calibration import Calibration
from refusal_checks.judges.trust.canary import JudgeFloors
from refusal_checks.run.options.call import Call

if TYPE_CHECKING:
    from refusal_checks.judges.trust.labels import HumanLabels


@dataclass(frozen=True)
class Trust:
    """What a run knows about its judge besides its verdicts.

    Attributes:
        floors: of its figures on the canary; None if it is not checked.
        allow_untrusted: decide gates even if it fails the check.
        calibration, calibration_file: its errors on human labels, and the file that has them.
        labels: human labels of a random sample of this run's answers.
        repeats: how often each answer is judged, to see if the judge agrees with itself.
    """

    floors: JudgeFloors | None = None
    allow_untrusted: bool = False
    calibration: Calibration | None = None
    calibration_file: Path | None = None
    labels: HumanLabels | None = None
    repeats: int = 1

    def among(self, candidate: str, candidates: Collection[str]) -> Trust:
        """What is known for one candidate of several: a sheet may be of another one."""
        others = set(candidates) - {candidate}
        labels = self.labels.among(candidate, others) if self.labels else None
        return replace(self, labels=labels)


def add(group: pytest.OptionGroup) -> None:
    """Declare the options."""
    add = group.addoption
    add(
        "--allow-untrusted-judge",
        action="store_true",
        help="decide gates even if the judge fails its own check",
    )
    add(
        "--calibration",
        metavar="FILE",
        help="the judge's errors, written by `refusal-checks calibrate --out`: show corrected "
        "rates beside the raw ones",
    )
    add(
        "--human-labels",
        metavar="FILE",
        action="append",
        help="labels of a random sample of this run's answers, from `refusal-checks "
        "sample-for-labels`: estimate the rates that people would find (repeatable)",
    )
    add(
        "--allow-undrawn-labels",
        action="store_true",
        help="accept --human-labels that were not drawn by sample-for-labels: they are shown, and "
        "decide nothing unless they cover every prompt",
    )
    add(
        "--judge-repeats",
        metavar="R",
        type=int,
        default=1,
        help="judge each answer R times with different seeds and show how many verdicts flip (1)",
    )


def read(config: Call, floors: JudgeFloors | None) -> Trust:
    """Read the options and the files that they name.

    Raises:
        UserError: a file or an option's value cannot be used.
    """
    from refusal_checks.judges.trust.labels import read_labels  # HTTP: not for collection

    folder = config.folder
    calibrated, labels = config.getoption("calibration"), config.getoption("human_labels") or ()
    path = folder / calibrated if calibrated else None
    repeats = config.getoption("judge_repeats")
    if repeats < 1:
        raise UserError(f"--judge-repeats {repeats}: must be at least 1")
    if repeats > 1 and config.getoption("stop_early"):
        raise UserError("--judge-repeats: leave out --stop-early: repeats need whole benchmarks")
    if (path or labels) and config.getoption("stop_early"):
        raise CalibrationError(
            "--calibration, --human-labels: leave out --stop-early: they need whole benchmarks"
        )
    return Trust(
        floors=floors if floors and floors.figures else None,
        allow_untrusted=config.getoption("allow_untrusted_judge"),
        calibration=calibration.read(path) if path else None,
        calibration_file=path,
        labels=read_labels(
            [folder / name for name in labels], config.getoption("allow_undrawn_labels")
        )
        if labels
        else None,
        repeats=repeats,
    )
