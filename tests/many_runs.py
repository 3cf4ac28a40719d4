"""Manifests of runs that can be compared."""

from datetime import UTC, datetime, timedelta
from typing import Any

FIRST = datetime(2026, 1, 2, 9, tzinfo=UTC)


def manifest(number: int = 0, **facts: Any) -> dict[str, Any]:
    """A manifest that says all that comparisons depend on."""
    data = {"revision": "1", "sha256": "abc", "prompts": 60}
    known = {
        "candidate": f"org/model-{number % 4}",
        "judge": "org/judge",
        "started": (FIRST + timedelta(days=number)).isoformat(),
        "models": {"judges": {"org/judge": {"version": "org/judge@1"}}},
        "judge_prompts": {name: {"org/judge": "p1"} for name in ("unsafe", "safe")},
        "data": {"unsafe": data, "safe": data},
        "sampling": {"temperature": 0.6, "seed": number},
        "judge_sampling": {"temperature": 0.0},
    }
    return known | facts
