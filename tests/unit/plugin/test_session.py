"""Ids of tests."""

from types import SimpleNamespace

import pytest

from refusal_checks.plugin import outcomes
from refusal_checks.plugin.collection import gate_id


@pytest.mark.parametrize(
    ("nodeid", "gate"),
    [
        (
            "tests/gates/test_gates.py::test_gate[xstest_safe-rejection_rate]",
            "xstest_safe-rejection_rate",
        ),
        ("a.py::test_gate[b-invalid_rate-two words]@group", "b-invalid_rate-two words"),
        (r"folder[1]/a.py::test_gate[b-m-\u8fdd\u6cd5]", "b-m-违法"),
        ("a.py::test_gate[b-m-http://[::1]:80/v1#x]", "b-m-http://[::1]:80/v1#x"),
        ("a.py::TestMine::test_gate[b-m]", "b-m"),
        ("a.py::test_other", ""),
    ],
)
def test_a_gate_test_s_node_id_names_its_gate(nodeid: str, gate: str) -> None:
    assert gate_id(nodeid) == gate


def test_an_error_that_gates_share_is_said_once() -> None:
    reports = [
        SimpleNamespace(nodeid=f"a.py::{test}", longrepr="the judge is not trusted")
        for test in ("test_gate[b-m]", "test_gate[c-m]", "test_mine")
    ]
    outcomes.say_once(reports, ["b-m", "c-m"])
    said = [report.longrepr for report in reports]
    assert said == [said[0], outcomes.SAME, said[0]]
