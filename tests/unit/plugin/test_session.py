"""Ids of tests, and ``-k`` where they name several candidates."""

from contextlib import nullcontext

import pytest

from refusal_checks.plugin.gate_session import gate_id, require_clear


@pytest.mark.parametrize(
    ("nodeid", "gate"),
    [
        (
            "tests/gates/test_gates.py::test_gate[xstest_safe-rejection_rate]",
            "xstest_safe-rejection_rate",
        ),
        ("a.py::test_gate[b-invalid_rate-two words]@group", "b-invalid_rate-two words"),
        ("folder[1]/a.py::test_gate[b-m]", "b-m"),
        (r"a.py::test_gate[b-m-\u8fdd\u6cd5]", "b-m-违法"),
        ("a.py::test_gate[b-m-违法]", "b-m-违法"),
        ("a.py::test_gate[b-m-http://[::1]:80/v1#x]", "b-m-http://[::1]:80/v1#x"),
        ("a.py::TestMine::test_gate[b-m]", "b-m"),
        ("a.py::test_other", ""),
    ],
)
def test_a_gate_test_s_node_id_names_its_gate(nodeid: str, gate: str) -> None:
    assert gate_id(nodeid) == gate


NAMES = (
    "xstest_safe",
    "xstest_unsafe",
    "sorrybench",
    "strongreject",
    "or_bench_hard",
    "nothing",
)
GATES = [f"{name}-rejection_rate" for name in NAMES]


@pytest.mark.parametrize(
    ("expression", "candidates", "is_refused"),
    [
        ("xstest", ("base", "xstest-tuned"), True),
        ("not XSTest", ("base", "xstest-tuned"), True),
        ("(sorry or xstest) and rejection", ("base", "xstest-tuned"), True),
        ("[xstest", ("base", "xstest-tuned"), False),
        ("xstest", ("xstest-tuned",), False),
        ("xstest", ("base", "tuned"), False),
        ("tuned and sorrybench", ("base", "xstest-tuned"), False),
        ("rejection_rate", ("base", "rejection_rate-model"), False),
        ("", ("base", "xstest-tuned"), False),
        ("strongreject or jailbreakbench", ("orca-2", "llama"), False),
        ("not strongreject", ("notus-7b", "llama"), False),
        ("strongreject and not nothing", ("android", "notus-7b"), False),
        ("strongreject OR nothing", ("orca-2", "llama"), False),
    ],
)
def test_a_word_that_is_part_of_a_candidate_s_name_is_refused(
    expression: str, candidates: tuple[str, ...], is_refused: bool
) -> None:
    says = r'-k xstest: write -k "\[xstest".*xstest-tuned'
    with pytest.raises(pytest.UsageError, match=says) if is_refused else nullcontext():
        require_clear(expression, GATES, candidates)
