"""How fast a server that others run may be asked."""

from __future__ import annotations

from dataclasses import dataclass

CONNECTIONS = 256
"""Most requests at one time where nobody said otherwise."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Limits on the requests to one model.

    Attributes:
        per_minute: most requests a minute, evenly spaced, retries included; None for no limit.
        at_once: most requests at one time.
    """

    per_minute: float | None = None
    at_once: int = CONNECTIONS
