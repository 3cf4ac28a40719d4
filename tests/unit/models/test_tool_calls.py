"""Tool calls as part of an answer, whatever form a server or a file gives them."""

from typing import Any

import pytest

from refusal_checks.models.tool_calls import append_tool_calls

SENT = {"function": {"name": "send", "arguments": '{"to": "all"}'}}


@pytest.mark.parametrize(
    ("calls", "shown"),
    [
        (None, "Sure."),
        ([], "Sure."),
        ([SENT], "Sure.\n\n[Tool call: send]\nto: all"),
        (SENT, "Sure.\n\n[Tool call: send]\nto: all"),
        ("send to all", "Sure.\n\n[Tool call]\nsend to all"),
        (5, "Sure.\n\n[Tool call]\n5"),
        (
            [None, {"function": 5}],
            "Sure.\n\n[Tool call]\nnull\n\n[Tool call]\nfunction: 5",
        ),
    ],
)
def test_a_call_of_any_form_is_shown_whole(calls: Any, shown: str) -> None:
    assert append_tool_calls("Sure.", {"tool_calls": calls}) == shown
