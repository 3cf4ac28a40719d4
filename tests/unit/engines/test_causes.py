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
    cause, _ = _cause(lines)
    assert said in cause
    assert bool(cause) == bool(said)


@pytest.mark.parametrize(
    ("cause", "remedy"),
    [
        ("x: error: unrecognized arguments: --foo", "check --candidate-args and --judge-args"),
        (
            "OSError: We couldn't connect to 'https://huggingface.co' to load the files",
            "check the name, connect this machine to the hub, or name a folder",
        ),
        ("ValueError: no room", ""),
    ],
)
def test_what_to_do_is_told_beside_the_cause(cause: str, remedy: str) -> None:
    assert _cause([cause]) == (cause, remedy)
