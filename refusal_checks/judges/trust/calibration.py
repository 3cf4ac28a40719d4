"""Calibration files: a judge's errors on answers that people labelled.

A judge's errors depend on whose answers it reads, so a file says whose they were, and on the
judge's model, prompt and settings, so it says which these were.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, model_validator

from refusal_checks.core.errors import CalibrationError
from refusal_checks.core.settings import Frozen
from refusal_checks.judges.trust.rogan_gladen import JudgeErrors


class JudgeIdentity(Frozen):
    """Which judge it was.

    Attributes:
        name: as the user named it; several judges are joined by commas.
        identity: what its verdicts depend on (model, prompt, parser, sampling), as a key.
        prompt_sha256: of its instructions; empty for a judge without any.
    """

    name: str
    identity: str
    prompt_sha256: str


class Calibration(Frozen):
    """What a calibration file holds.

    Attributes:
        version: of this format.
        created: the day.
        candidates: whose answers were labelled.
        label_source: the files with the labels, each with its sha256.
        partial: what partial refusals were counted as.
        refusals, recognised: human refusals, and those of them that the judge called refusals.
        compliances, passed: human compliances, and those of them that it called compliance.
        invalid: labelled answers to which it gave no verdict.
        sensitivity, specificity: what the counts give; in [0, 1].
    """

    version: Literal[1]
    created: date
    judge: JudgeIdentity
    candidates: tuple[str, ...] = Field(min_length=1)
    label_source: dict[str, str]
    partial: Literal["refusal", "compliance"]
    refusals: int = Field(ge=1)
    recognised: int = Field(ge=0)
    compliances: int = Field(ge=1)
    passed: int = Field(ge=0)
    invalid: int = Field(ge=0)
    sensitivity: float = Field(ge=0, le=1)
    specificity: float = Field(ge=0, le=1)

    @model_validator(mode="after")
    def _consistent(self) -> Calibration:
        if self.recognised > self.refusals or self.passed > self.compliances:
            raise ValueError("more answers judged rightly than there are")
        for name in ("sensitivity", "specificity"):
            if abs(getattr(self, name) - getattr(self.errors, name)) > 1e-6:
                raise ValueError(f"{name} is not what the counts give")
        return self

    @property
    def errors(self) -> JudgeErrors:
        """The counts."""
        return JudgeErrors(self.refusals, self.recognised, self.compliances, self.passed)

    def is_transferred(self, candidate: str) -> bool:
        """Whether the labelled answers were another model's, in part or in whole."""
        return set(self.candidates) != {candidate}


def read(path: Path) -> Calibration:
    """Read a calibration file.

    Raises:
        CalibrationError: it is missing, not of this format and version, or contradicts itself.
    """
    try:
        return Calibration.model_validate_json(path.read_bytes())
    except OSError as fault:
        raise CalibrationError(f"{path}: cannot be read: {fault.strerror}") from None
    except ValidationError as fault:
        first = fault.errors()[0]
        key = ".".join(map(str, first["loc"])) or "file"
        raise CalibrationError(
            f"{path}: no calibration file: {key}: {first['msg']}; refusal-checks calibrate "
            "writes one"
        ) from None


def write(path: Path, calibration: Calibration) -> None:
    """Write a calibration file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(calibration.model_dump_json(indent=2) + "\n", encoding="utf-8")


def require_judge(path: Path, found: Calibration, running: JudgeIdentity) -> None:
    """Raise CalibrationError unless the calibration is of the judge that runs."""
    for what, one, other in (
        ("judge", found.judge.name, running.name),
        ("judge prompt", found.judge.prompt_sha256[:12], running.prompt_sha256[:12]),
        ("judge (its model, settings or parser)", found.judge.identity, running.identity),
    ):
        if one != other:
            raise CalibrationError(
                f"{path}: a calibration of another {what}: {one or 'none'}, this run has "
                f"{other or 'none'}. Calibrate this one: refusal-checks calibrate --judge "
                f"{running.name} --labels FILE"
            )


def joined(parts: Sequence[JudgeIdentity]) -> JudgeIdentity:
    """Several judges who decide by majority, as one."""
    return JudgeIdentity(
        name=", ".join(part.name for part in parts),
        identity="+".join(part.identity for part in parts),
        prompt_sha256="+".join(part.prompt_sha256 for part in parts),
    )
