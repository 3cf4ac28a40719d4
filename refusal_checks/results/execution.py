"""How a run went: the work to do, where its engines ran, and what its servers reported.

What was run is in its manifest; this is known only as the run goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refusal_checks.models.client.usage import Usage
from refusal_checks.results.manifest import Facts


class ServerFacts(Facts):
    """Request fields that a server refuses, and the model it claims to be if not the one asked."""

    left_out: tuple[str, ...] = ()
    answers_as: str = ""


class Execution(Facts):
    """How a run went.

    Attributes:
        answers: answers left to generate when it started.
        verdicts: the most verdicts left to ask for when it started.
        reused: answers that were in the store.
        stored_from: when the first of them was stored, as a date in UTC; empty for recorded ones.
        stored_until: when the last of them was stored.
        placement: where the engines ran, see ``engines.placement.Placement``.
        servers: by role (candidate, judge), then by URL and model.
        tokens: by role.
        seconds: duration since the candidate was ready; None if it never was.
        finished: time in UTC, in ISO format; empty while the run goes on.
    """

    answers: int = 0
    verdicts: int = 0
    reused: int = 0
    stored_from: str = ""
    stored_until: str = ""
    placement: Mapping[str, Any] = {}
    servers: Mapping[str, Mapping[str, ServerFacts]] = {}
    tokens: Mapping[str, Usage] = {}
    seconds: float | None = None
    finished: str = ""

    @property
    def stored(self) -> str:
        """How many answers came from the store, in words; empty if none did."""
        if not self.reused or not self.stored_from:
            return ""
        share = f"{self.reused} of {self.reused + self.answers}"
        if not self.answers:
            share = f"all {self.reused}"
        dates = " to ".join(dict.fromkeys((self.stored_from, self.stored_until)))
        return f"{share} answers from the store, of {dates}"
