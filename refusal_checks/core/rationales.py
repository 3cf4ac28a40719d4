"""When a judge of refusal writes its reasons."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from refusal_checks.core.settings import Frozen

Rationales = Literal["all", "offenders"]
"""Before each verdict, or only where reports show them."""


class Writing(Frozen):
    """What judges of refusal write besides verdicts; the two ways make two judges.

    Attributes:
        rationales: ``all`` lets a judge write its reasons before each verdict, which they may
            change; ``offenders`` asks for the verdict alone, and for reasons afterwards where
            reports show them, and of a sample.
    """

    rationales: Rationales = Field(
        "all",
        description="reasons of judges of refusal: of all answers, before the verdict; or the "
        "verdict alone, and reasons afterwards for offenders, disagreements and a sample",
    )
