"""What requests cost and what servers can do, as manifests and the last lines tell it."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from refusal_checks.engines import accounts
from refusal_checks.models.client.capabilities import Capabilities, Support
from refusal_checks.models.client.client import Client
from refusal_checks.models.client.usage import Usage
from refusal_checks.reports.terminal.footer import tokens


def client(name: str, capabilities: Capabilities, verdicts: int = 0) -> Client:
    found = Client("http://x/v1", name, capabilities=capabilities)
    found.meter.asked, found.meter.tries, found.meter.verdicts = 1, 3, verdicts
    found.meter.add({"usage": {"prompt_tokens": 10, "completion_tokens": 4}})
    return found


def test_the_clients_of_a_role_are_added_up() -> None:
    judges = [client(name, Capabilities(), verdicts=1) for name in ("a", "b")]
    found = accounts.tokens({"candidate": [client("c", Capabilities())], "judge": judges})
    assert found["candidate"] == asdict(Usage(requests=1, retries=2, prompt=10, output=4))
    assert found["judge"] == asdict(Usage(2, 4, 20, 0, 8, 2))


def test_each_server_s_capabilities_are_told() -> None:
    judges = [client("a", Capabilities()), client("b", Capabilities(seed=Support.IGNORED))]
    found = accounts.capabilities({"judge": judges})["judge"]
    assert set(found["http://x/v1#a"].values()) == {"yes"}
    assert found["http://x/v1#b"]["seed"] == "ignored"


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
