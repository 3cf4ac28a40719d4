"""What a run's requests cost, in a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from refusal_checks.models.client.usage import Usage


def lines(tokens: Mapping[str, Usage]) -> Iterator[str]:
    """One line on the tokens of candidate and judge; none where nothing was asked for."""
    asked = {role: found for role, found in tokens.items() if found.requests}
    if asked:
        yield "tokens: " + "; ".join(_role(role, found) for role, found in asked.items())


def _role(role: str, found: Usage) -> str:
    requests = f"{found.requests:,} requests"
    if not found.prompt + found.output:
        return f"{role} unknown in {requests}"
    said = f"{role} {_cost(found, 1)} in {requests}"
    if found.retries:
        said += f" and {found.retries:,} retries"
    return said + (f", per verdict: {_cost(found, found.verdicts)}" if found.verdicts else "")


def _cost(found: Usage, share: int) -> str:
    prompt, cached, output = (
        round(count / share) for count in (found.prompt, found.cached, found.output)
    )
    held = f" ({cached:,} cached)" if cached else ""
    return f"{prompt:,} prompt{held}, {output:,} output"
