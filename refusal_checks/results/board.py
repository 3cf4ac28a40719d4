"""What the owner of a run publishes in the run's folder, and how tests wait for it.

The process that owns the engines evaluates and decides; tests, in the same process or in xdist
workers, only read. So a run gives the same figures however its tests are distributed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from refusal_checks.core.errors import EvaluationError, UserError
from refusal_checks.core.files import _write, write_json
from refusal_checks.gates.verdict import Verdict
from refusal_checks.judges.trust.check import JudgeCheck

Found = TypeVar("Found")

POLL = 0.05
"""Seconds between two looks."""

_RESERVE = 8192
"""Bytes kept on the disk for the reason why an evaluation ended."""


@dataclass(frozen=True)
class Published:
    """A gate's verdict, or why there is none."""

    verdict: Verdict | None = None
    error: str | None = None


@dataclass(frozen=True)
class JudgeOutcome:
    """How the run's judge did on its own check, or why it was not checked."""

    check: JudgeCheck | None = None
    idle: str = ""


_JUDGE = TypeAdapter(JudgeOutcome)
_OUTCOMES = TypeAdapter(dict[str, Published])
_PROVENANCE = TypeAdapter(dict[str, str])


class Board:
    """The outcomes of a run, one file a benchmark."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._failure = folder / "failure.txt"
        self._reserve = folder / "reserve"

    def open(self, provenance: Mapping[str, str]) -> None:
        """Start: publish where the run's figures come from.

        Raises:
            UserError: the folder cannot be written.
        """
        try:
            write_json(self.folder / "provenance.json", dict(provenance))
            _write(self._reserve, bytes(_RESERVE))
        except OSError as fault:
            raise UserError(f"{self.folder}: cannot be written: {fault.strerror}") from None

    def provenance(self) -> dict[str, str]:
        """Where the run's figures come from, by name.

        Raises:
            EvaluationError: the folder was taken away while the run went on.
        """
        path = self.folder / "provenance.json"
        try:
            return _PROVENANCE.validate_json(path.read_bytes())
        except FileNotFoundError:
            raise EvaluationError(f"{path}: removed while the run went on; run it again") from None

    def post(self, benchmark: str, outcomes: Mapping[str, Published]) -> None:
        """Publish the outcomes of a benchmark's gates, by gate id."""
        data = _OUTCOMES.dump_json(dict(outcomes), indent=1)
        _write(self._file(benchmark), data)

    def fail(self, reason: str) -> None:
        """Publish that the evaluation has ended without what is still waited for.

        On a full disk the reserve's place is used, since tests would wait for ever otherwise; a
        longer reason is cut there, perhaps within a character.
        """
        data = reason.encode("utf-8", "replace")
        try:
            _write(self._failure, data)
        except OSError:
            with self._reserve.open("r+b") as file:
                file.write(data[:_RESERVE])
                file.truncate()
            self._reserve.replace(self._failure)

    def close(self) -> None:
        """End: nothing more will be published."""
        with suppress(OSError):  # a folder that could not be made has none
            self._reserve.unlink()

    def outcomes(self, benchmark: str) -> dict[str, Published] | None:
        """The outcomes of a benchmark's gates, None while it is not complete."""
        try:
            return _OUTCOMES.validate_json(self._file(benchmark).read_bytes())
        except FileNotFoundError:
            return None

    def wait(self, benchmark: str, gate: str, is_alive: Callable[[], bool]) -> Verdict:
        """Wait for one gate's verdict.

        Raises:
            EvaluationError: there is none, or the owner of the run is gone.
        """
        outcome = self._wait(lambda: self.outcomes(benchmark), is_alive)[gate]
        if outcome.verdict is None:
            raise EvaluationError(outcome.error or "no verdict")
        return outcome.verdict

    def post_judge(self, found: JudgeOutcome) -> None:
        """Publish how the judge did on its check."""
        _write(self.folder / "judge.json", _JUDGE.dump_json(found, indent=1))

    def judge(self) -> JudgeOutcome | None:
        """How the judge did, None while its check is not complete."""
        try:
            return _JUDGE.validate_json((self.folder / "judge.json").read_bytes())
        except FileNotFoundError:
            return None

    def wait_judge(self, is_alive: Callable[[], bool]) -> JudgeOutcome:
        """Wait for the judge's check.

        Raises:
            EvaluationError: there is none, or the owner of the run is gone.
        """
        return self._wait(self.judge, is_alive)

    def _wait(self, look: Callable[[], Found | None], is_alive: Callable[[], bool]) -> Found:
        """What is looked for, once it is published."""
        while True:
            alive = is_alive()  # before looking: the owner may publish and end in between
            found = look()
            if found is not None:
                return found
            if self._failure.exists():
                raise EvaluationError(self._failure.read_text("utf-8", errors="replace"))
            if not alive:
                raise EvaluationError("the process that owns this run has ended")
            time.sleep(POLL)

    def _file(self, benchmark: str) -> Path:
        return self.folder / "outcomes" / f"{benchmark}.json"
