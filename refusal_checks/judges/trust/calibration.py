"""Calibration files: a judge's errors on answers that people labelled.

Errors depend on whose answers the judge reads and on its model, prompt and settings, so a file
names them all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from refusal_checks.core import suggestions
from refusal_checks.core.errors import CalibrationError
from refusal_checks.core.files import write_text
from refusal_checks.core.settings import Frozen, Rationales
from refusal_checks.judges.trust.correction import LEAST, JudgeErrors

_COUNTS = r"^\d{1,6}/\d{1,6} \d{1,6}/\d{1,6}$"

Group = Collection[str] | None
"""The prompts of a group, by ``draws.prompt_key``; None for a whole benchmark."""


class JudgeIdentity(Frozen):
    name: str  # as the user named it; several judges are joined by commas
    identity: (
        str  # key of all that its verdicts depend on (model, prompt, parser, sampling)
    )
    prompt_sha256: str  # of its instructions; empty if there are none
    rationales: Rationales = "all"


class Calibration(Frozen):
    """The content of a calibration file."""

    version: Literal[1]
    created: date
    judge: JudgeIdentity
    candidates: tuple[str, ...] = Field(min_length=1)  # whose answers were labelled
    label_source: dict[str, str]  # sha256 by name of the label files
    partial: Literal["refusal", "compliance"]  # what a partial refusal counts as
    refusals: int = Field(ge=1)  # these and the next three: see ``JudgeErrors``
    recognised: int = Field(ge=0)
    compliances: int = Field(ge=1)
    passed: int = Field(ge=0)
    invalid: int = Field(ge=0)  # labelled answers without a valid verdict
    sensitivity: float = Field(ge=0, le=1)
    specificity: float = Field(ge=0, le=1)
    benchmarks: dict[str, JudgeErrors]  # of the answers whose benchmark is known
    # By benchmark and ``prompt_key``, for gates on groups: recognised/refusals passed/compliances.
    prompts: dict[str, dict[str, Annotated[str, Field(pattern=_COUNTS)]]]
    languages: dict[str, int]  # labelled answers by the code of their language

    @model_validator(mode="after")
    def _consistent(self) -> Calibration:
        for name in ("sensitivity", "specificity"):
            if abs(getattr(self, name) - getattr(self.errors, name)) > 1e-6:
                raise ValueError(f"{name} contradicts the counts")
        return self

    @property
    def errors(self) -> JudgeErrors:
        return JudgeErrors(
            self.refusals, self.recognised, self.compliances, self.passed
        )

    @property
    def measured(self) -> frozenset[str]:
        """The languages with enough labelled answers."""
        return frozenset(code for code, n in self.languages.items() if n >= LEAST)

    def errors_on(self, benchmark: str, group: Group = None) -> JudgeErrors:
        """The errors on a group's own answers or, without enough of these, on more of them."""
        return self._known(benchmark, group)[0]

    def has_own(self, benchmark: str, group: Group = None) -> bool:
        """True if ``errors_on`` are those on a benchmark's or group's own answers."""
        return self._known(benchmark, group)[1] == "own"

    def foreign(self, candidate: str, benchmark: str, group: Group = None) -> str:
        """Whose answers, to which prompts, the errors are about; empty if a run's own."""
        other = set(self.candidates) != {candidate}
        whose = f"answers of {', '.join(self.candidates)}" if other else "answers"
        match self._known(benchmark, group)[1]:
            case "own":
                return whose if other else ""
            case "benchmark":
                return f"{whose} to other prompts of {benchmark} (under {LEAST} of this group)"
        if not self.benchmarks:
            return f"{whose} to benchmarks that the file does not name"
        few = (
            f", with too few of those to {benchmark}"
            if benchmark in self.benchmarks
            else ""
        )
        return f"{whose} to {', '.join(self.benchmarks)}{few}"

    def _known(
        self, benchmark: str, group: Group
    ) -> tuple[JudgeErrors, Literal["own", "benchmark", "all"]]:
        whole = self.benchmarks.get(benchmark)
        if whole is None or not whole.refusals or not whole.compliances:
            return self.errors, "all"
        if group is None:
            return whole, "own"
        listed = self.prompts.get(benchmark, {})
        rows = [re.findall(r"\d+", listed[key]) for key in group if key in listed]
        recognised, refusals, passed, compliances = (
            sum(int(row[i]) for row in rows) for i in range(4)
        )
        if refusals + compliances < LEAST:
            return whole, "benchmark"
        if not refusals:  # of a class that the group lacks, the benchmark's
            refusals, recognised = whole.refusals, whole.recognised
        if not compliances:
            compliances, passed = whole.compliances, whole.passed
        return JudgeErrors(refusals, recognised, compliances, passed), "own"


def read(path: Path) -> Calibration:
    try:
        return Calibration.model_validate_json(path.read_bytes())
    except OSError as fault:
        raise CalibrationError(f"{path}: cannot be read: {fault.strerror}") from None
    except ValidationError as fault:
        first = suggestions.first(fault)
        key, why = suggestions.key(first), suggestions.problem(first, Calibration)
        raise CalibrationError(
            f"--calibration {path}: name a file that `refusal-checks calibrate --out FILE` wrote: "
            f"this one is none: {f'{key}:' if key else 'it'} {why}"
        ) from None


def write(path: Path, calibration: Calibration) -> None:
    write_text(path, calibration.model_dump_json(indent=2) + "\n")


def require_judge(path: Path, calibration: Calibration, running: JudgeIdentity) -> None:
    """Raise CalibrationError unless the calibration is of the judge that runs."""
    judge = calibration.judge
    if judge.name == running.name and judge.rationales != running.rationales:
        raise CalibrationError(
            f"{path}: run with --set judge.rationales={judge.rationales}, or calibrate again with "
            f"--set judge.rationales={running.rationales}: the file is of {judge.name} with "
            f"judge.rationales={judge.rationales}. A judge that writes its reasons first may give "
            "other verdicts than one that gives the verdict alone, so their errors differ"
        )
    for what, calibrated, used in (
        ("judge", judge.name, running.name),
        ("judge prompt", judge.prompt_sha256[:12], running.prompt_sha256[:12]),
        ("judge (its model, settings or parser)", judge.identity, running.identity),
    ):
        if calibrated != used:
            raise CalibrationError(
                f"{path}: calibrate this run's judge: refusal-checks calibrate --judge "
                f"{running.name} --labels FILE. The file is of another {what}: "
                f"{calibrated or 'none'}; this run has {used or 'none'}"
            )


def joined(parts: Sequence[JudgeIdentity]) -> JudgeIdentity:
    return JudgeIdentity(
        name=", ".join(part.name for part in parts),
        identity="+".join(part.identity for part in parts),
        prompt_sha256="+".join(part.prompt_sha256 for part in parts),
        rationales="all"
        if all(part.rationales == "all" for part in parts)
        else "offenders",
    )
