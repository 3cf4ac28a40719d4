"""No verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from refusal_checks.core.finish_reasons import KNOWN
from refusal_checks.core.text import storable
from refusal_checks.core.verdicts.base import Tone, VerdictBase
from refusal_checks.core.verdicts.labels import Reason


@dataclass(frozen=True, slots=True)
class Invalid(VerdictBase):
    """No verdict. Counted on neither side, and never averaged in."""

    has_sides = False

    reason: Reason
    detail: str = ""
    kind: Literal["invalid"] = "invalid"

    @property
    def verdict(self) -> str:
        """Why there is no verdict."""
        return str(self.reason)

    @property
    def shown(self) -> tuple[str, Tone]:
        """See ``VerdictBase.shown``."""
        return self.verdict, "invalid"

    @property
    def rationale(self) -> str:
        """The detail of the reason, untrusted text."""
        return self.detail

    def redacted(self, hide: Callable[[str], str]) -> Self:
        """See ``VerdictBase.redacted``."""
        is_free = self.detail.removeprefix("finish reason ") in KNOWN
        return self if is_free else replace(self, detail=hide(self.detail))

    def cells(self) -> dict[str, Any]:
        """See ``VerdictBase.cells``."""
        why = {"invalid_reason": self.verdict, "invalid_detail": storable(self.detail)}
        return {"kind": self.kind, "verdict": self.verdict, **why}
