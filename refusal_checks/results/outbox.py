"""Outcomes that tests wait for, in the run's folder.

The process that owns the engines evaluates and decides; tests, there or in workers, only read. So a
run gives the same figures however its tests are distributed.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from refusal_checks.core.errors import EvaluationError, UserError
from refusal_checks.core.files import write_json, write_text
from refusal_checks.gates.decide import Verdict
from refusal_checks.judges.trust.canary import JudgeCheck

Value = TypeVar("Value")

POLL = 0.05  # seconds between two looks

_NO_REASON = "the evaluation ended early; its reason could not be written into the run's folder"


@dataclass(frozen=True)
class Published:
    verdict: Verdict | None = None
    error: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JudgeOutcome:
    check: JudgeCheck | None = None
    idle: str = ""
    error: str = ""


_JUDGE = TypeAdapter(JudgeOutcome)
_OUTCOMES = TypeAdapter(dict[str, Published])
_PROVENANCE = TypeAdapter(dict[str, str])


class Board:
    """The outcomes of a run, one file per benchmark.

    ``is_open``: it was opened before anybody waits, by this process or by the one that owns it.
    """

    def __init__(self, folder: Path, *, is_open: bool = False) -> None:
        self.folder = folder
        self._is_open = is_open
        self._failure = folder / "failure.txt"
        self._judge = folder / "judge.json"
        self._provenance = folder / "provenance.json"

    def open(self, provenance: Mapping[str, str]) -> None:
        """Start: publish where the run's figures come from, by name."""
        try:
            write_json(self._provenance, dict(provenance))
        except OSError as fault:
            raise UserError(f"{self.folder}: cannot be written: {fault.strerror}") from None

    @property
    def is_there(self) -> bool:
        """Whether the folder is still the one that was opened; others may clean up."""
        return self._provenance.exists()

    def provenance(self) -> dict[str, str]:
        found = _read(self._provenance, _PROVENANCE)
        if found is None:
            raise self._removed()
        return found

    def _removed(self) -> EvaluationError:
        return EvaluationError(f"run it again: {self._provenance} was removed while it went on")

    def post(self, benchmark: str, outcomes: Mapping[str, Published]) -> None:
        """Publish the outcomes of a benchmark's gates, by gate id."""
        _publish(self.folder / "outcomes" / f"{benchmark}.json", _OUTCOMES, dict(outcomes))

    def outcomes(self, benchmark: str) -> dict[str, Published] | None:
        return _read(self.folder / "outcomes" / f"{benchmark}.json", _OUTCOMES)

    def facts(self, benchmark: str) -> dict[str, str]:
        found = (self.outcomes(benchmark) or {}).values()
        return {name: value for each in found for name, value in each.facts.items()}

    def post_judge(self, outcome: JudgeOutcome) -> None:
        _publish(self._judge, _JUDGE, outcome)

    def fail(self, reason: str) -> None:
        try:
            write_text(self._failure, reason)
        except OSError:
            self._failure.touch()  # a full disk usually has room for an empty file

    def wait(self, benchmark: str, gate: str, is_alive: Callable[[], bool]) -> Verdict:
        """Wait for one gate's verdict; an EvaluationError if there will be none."""
        outcome = self._wait(lambda: self.outcomes(benchmark), is_alive)[gate]
        if outcome.verdict is None:
            raise EvaluationError(outcome.error or "no verdict")
        return outcome.verdict

    def wait_judge(self, is_alive: Callable[[], bool]) -> JudgeOutcome:
        return self._wait(lambda: _read(self._judge, _JUDGE), is_alive)

    def _wait(self, look: Callable[[], Value | None], is_alive: Callable[[], bool]) -> Value:
        while True:
            alive = is_alive()  # before looking: the owner may publish and end in between
            if (outcome := look()) is not None:
                return outcome
            if self._is_open and not self.is_there:
                raise self._removed()
            self._is_open = self.is_there
            if self._failure.exists():
                raise EvaluationError(self._failure.read_text("utf-8") or _NO_REASON)
            if not alive:
                raise EvaluationError("the process that owns this run has ended")
            time.sleep(POLL)


def _publish(path: Path, form: TypeAdapter[Value], value: Value) -> None:
    write_text(path, form.dump_json(value, indent=1).decode())


def _read(path: Path, form: TypeAdapter[Value]) -> Value | None:
    try:
        return form.validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
