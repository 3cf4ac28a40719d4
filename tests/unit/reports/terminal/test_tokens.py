"""The lines on what requests cost."""

from __future__ import annotations

import pytest

from refusal_checks.models.client.usage import Usage
from refusal_checks.reports.terminal.footer import tokens


@pytest.mark.parametrize(
    ("usages", "line"),
    [
        ({}, None),
        ({"candidate": Usage()}, None),
        (
            {"candidate": Usage(80, 0, 12345, 1000, 678), "judge": Usage()},
            "tokens: candidate 12,345 prompt (1,000 cached), 678 output in 80 requests",
        ),
        (
            {"judge": Usage(20, 1, 4120, 3800, 310, 10)},
            "tokens: judge 4,120 prompt (3,800 cached), 310 output in 20 requests and 1 retries, "
            "per verdict: 412 prompt (380 cached), 31 output",
        ),
        (
            {"candidate": Usage(3), "judge": Usage(2, verdicts=2)},
            "tokens: candidate unknown in 3 requests; judge unknown in 2 requests",
        ),
    ],
)
def test_the_line(usages: dict[str, Usage], line: str | None) -> None:
    assert list(tokens(usages)) == ([line] if line else [])
    assert list(tokens({})) == []
