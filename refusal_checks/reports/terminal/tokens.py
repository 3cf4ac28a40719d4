"""What a run's requests cost, in a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Counts = Mapping[str, int]
"""A role's ``usage.Usage``, as a manifest holds it."""


def lines(manifest: Mapping[str, Any]) -> Iterator[str]:
    """One line on the tokens of candidate and judge; none where nothing was asked for."""
    asked = {role: found for role, found in manifest.get("tokens", {}).items() if found["requests"]}
    if asked:
        yield "tokens: " + "; ".join(_role(role, found) for role, found in asked.items())


def _role(role: str, found: Counts) -> str:
    requests, verdicts = f"{found['requests']:,} requests", found["verdicts"]
    if not found["prompt"] + found["output"]:
        return f"{role} unknown in {requests}"
    said = f"{role} {_cost(found, 1)} in {requests}"
    if found["retries"]:
        said += f" and {found['retries']:,} retries"
    return said + (f", per verdict: {_cost(found, verdicts)}" if verdicts else "")


def _cost(found: Counts, share: int) -> str:
    prompt, cached, output = (round(found[name] / share) for name in ("prompt", "cached", "output"))
    held = f" ({cached:,} cached)" if cached else ""
    return f"{prompt:,} prompt{held}, {output:,} output"
