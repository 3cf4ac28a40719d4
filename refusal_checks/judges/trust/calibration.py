"""Calibration files: a judge's errors on answers that people labelled.

Errors depend on whose answers a judge reads, and on its model, prompt and settings, so a file names
them all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from refusal_checks.core import suggestions
from refusal_checks.core.errors import CalibrationError
from refusal_checks.core.files import write_text
from refusal_checks.core.settings import Frozen, Rationales
from refusal_checks.core.verdicts import PartialCount
from refusal_checks.judges.trust.correction import LEAST, JudgeErrors

_COUNTS = r"^\d{1,6}/\d{1,6} \d{1,6}/\d{1,6}$"

Group = Collection[str] | None
"""The prompts of a group, by ``draws.prompt_key``; None for a whole benchmark."""

Source = Literal["own", "benchmark", "all"]
"""Whose errors are used: a benchmark's or group's own, the whole benchmark's, or all answers'."""


class JudgeIdentity(Frozen):
    """Identifies a judge, or several that decide together.

    Attributes:
        name: as the user named it; several judges are joined by commas.
        identity: key of everything that its verdicts depend on (model, prompt, parser, sampling).
        prompt_sha256: digest of its instructions; empty if there are none.
    """

    name: str
    identity: str
    prompt_sha256: str
    rationales: Rationales = "all"


class Calibration(Frozen):
    """The content of a calibration file.

    Attributes:
        candidates: whose answers were labelled.
        label_source: sha256 of each label file, by name.
        partial: what partial refusals count as.
        refusals, recognised, compliances, passed: see ``JudgeErrors``.
        invalid: number of labelled answers without a valid verdict.
        benchmarks: the errors on answers whose benchmark is known.
        prompts: by benchmark and ``draws.prompt_key``, a text "recognised/refusals
            passed/compliances", for gates on groups.
        languages: number of labelled answers by language code.
    """

    version: Literal[1]
    created: date
    judge: JudgeIdentity
    candidates: tuple[str, ...] = Field(min_length=1)
    label_source: dict[str, str]
    partial: PartialCount
    refusals: int = Field(ge=1)
    recognised: int = Field(ge=0)
    compliances: int = Field(ge=1)
    passed: int = Field(ge=0)
    invalid: int = Field(ge=0)
    sensitivity: float = Field(ge=0, le=1)
    specificity: float = Field(ge=0, le=1)
    benchmarks: dict[str, JudgeErrors]
    prompts: dict[str, dict[str, Annotated[str, Field(pattern=_COUNTS)]]]
    languages: dict[str, int]

    @model_validator(mode="after")
    def _consistent(self) -> Calibration:
        for name in ("sensitivity", "specificity"):
            # A file edited by hand must not correct anything.
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
        """Languages with enough labelled answers."""
        return frozenset(code for code, n in self.languages.items() if n >= LEAST)

    def errors_on(self, benchmark: str, group: Group = None) -> JudgeErrors:
        """The errors on a group's own answers or, if there are too few, on a wider set."""
        errors, _ = self._errors_and_source(benchmark, group)
        return errors

    def has_own(self, benchmark: str, group: Group = None) -> bool:
        """True if ``errors_on`` uses the benchmark's or group's own answers."""
        _, source = self._errors_and_source(benchmark, group)
        return source == "own"

    def foreign(self, candidate: str, benchmark: str, group: Group = None) -> str:
        """Whose answers, to which prompts, the errors were measured on; empty if the run's own."""
        is_other = set(self.candidates) != {candidate}
        whose = f"answers of {', '.join(self.candidates)}" if is_other else "answers"
        _, source = self._errors_and_source(benchmark, group)
        if source == "own":
            return whose if is_other else ""
        if source == "benchmark":
            return (
                f"{whose} to other prompts of {benchmark} (under {LEAST} of this group)"
            )
        if not self.benchmarks:
            return f"{whose} to benchmarks that the file does not name"

        few = ""
        if benchmark in self.benchmarks:
            few = f", with too few of those to {benchmark}"
        return f"{whose} to {', '.join(self.benchmarks)}{few}"

    def _errors_and_source(
        self, benchmark: str, group: Group
    ) -> tuple[JudgeErrors, Source]:
        whole = self.benchmarks.get(benchmark)
        if whole is None or not whole.refusals or not whole.compliances:
            return self.errors, "all"
        if group is None:
            return whole, "own"

        own = self._counted(benchmark, group)
        if own.refusals + own.compliances < LEAST:
            return whole, "benchmark"
        # For a class that the group lacks, use the benchmark's errors.
        if not own.refusals:
            own = replace(own, refusals=whole.refusals, recognised=whole.recognised)
        if not own.compliances:
            own = replace(own, compliances=whole.compliances, passed=whole.passed)
        return own, "own"

    def _counted(self, benchmark: str, group: Collection[str]) -> JudgeErrors:
        """Sum of the errors on a group's prompts."""
        counts = self.prompts.get(benchmark, {})
        recognised = refusals = passed = compliances = 0
        for key in group:
            if key not in counts:
                continue
            own = [int(number) for number in re.findall(r"\d+", counts[key])]
            recognised += own[0]
            refusals += own[1]
            passed += own[2]
            compliances += own[3]
        return JudgeErrors(refusals, recognised, compliances, passed)


def read(path: Path) -> Calibration:
    try:
        return Calibration.model_validate_json(path.read_bytes())
    except OSError as fault:
        raise CalibrationError(f"{path}: cannot be read: {fault.strerror}") from None
    except ValidationError as fault:
        first = suggestions.first(fault)
        key = suggestions.key(first)
        where = f"{key}:" if key else "it"
        raise CalibrationError(
            f"--calibration {path}: name a file that `refusal-checks calibrate --out FILE` wrote: "
            f"this one is none: {where} {suggestions.problem(first, Calibration)}"
        ) from None


def write(path: Path, calibration: Calibration) -> None:
    write_text(path, calibration.model_dump_json(indent=2) + "\n")


def require_judge(path: Path, calibration: Calibration, running: JudgeIdentity) -> None:
    """Raise CalibrationError unless the calibration measured the run's judge."""
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


def require_partial(path: Path, calibration: Calibration, used: PartialCount) -> None:
    """Raise CalibrationError unless partial refusals count in the run as in the calibration."""
    if calibration.partial != used:
        raise CalibrationError(
            f"{path}: calibrate again with --set judge.partial={used}, or run with --set "
            f"judge.partial={calibration.partial}: the file counts partial refusals as "
            f"{calibration.partial}, and this run as {used}"
        )


def joined(parts: Sequence[JudgeIdentity]) -> JudgeIdentity:
    """The joint identity of judges that decide together."""
    is_all = all(part.rationales == "all" for part in parts)
    return JudgeIdentity(
        name=", ".join(part.name for part in parts),
        identity="+".join(part.identity for part in parts),
        prompt_sha256="+".join(part.prompt_sha256 for part in parts),
        rationales="all" if is_all else "offenders",
    )
