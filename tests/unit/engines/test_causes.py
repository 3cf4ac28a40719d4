"""Why an engine ended, told before its log."""

from __future__ import annotations

import pytest

from refusal_checks.engines.process import _cause


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["usage: api_server.py", "api_server.py: error: unrecognized arguments: --foo"], "--foo"),
        (
            ["(APIServer pid=7) OSError: a/b is not a local folder and is not a valid model "],
            "OSError: a/b is not a local folder",
        ),
        (
            ["ValueError: no room", "RuntimeError: failed. See root cause above.", "bye"],
            "ValueError: no room",
        ),
        (["all is well"], ""),
    ],
)
def test_the_cause_is_found_in_the_log(lines: list[str], said: str) -> None:
    assert said in _cause(lines)
    assert bool(_cause(lines)) == bool(said)


def test_what_to_do_comes_first() -> None:
    found = _cause(["x: error: unrecognized arguments: --foo"])
    assert found == (
        "\ncheck --candidate-args and --judge-args\nx: error: unrecognized arguments: --foo"
    )
