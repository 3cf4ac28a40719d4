"""Ids of tests, and ``-k`` where they name several candidates."""

from __future__ import annotations

import pytest

from refusal_checks.run.options.models import _shortest
from refusal_checks.run.session import gate_id, require_clear


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


GATES = ("xstest_safe-rejection_rate", "xstest_unsafe-rejection_rate", "sorrybench-rejection_rate")
MORE = ("strongreject-rejection_rate", "or_bench_hard-rejection_rate", "nothing-rejection_rate")


@pytest.mark.parametrize("expression", ["xstest", "not XSTest", "(sorry or xstest) and rejection"])
def test_a_word_that_is_part_of_a_candidate_s_name_is_refused(expression: str) -> None:
    with pytest.raises(pytest.UsageError, match=r'-k xstest: write -k "\[xstest".*xstest-tuned'):
        require_clear(expression, GATES, ("base", "xstest-tuned"))


@pytest.mark.parametrize(
    ("expression", "candidates"),
    [
        ("[xstest", ("base", "xstest-tuned")),
        ("xstest", ("xstest-tuned",)),
        ("xstest", ("base", "tuned")),
        ("tuned and sorrybench", ("base", "xstest-tuned")),
        ("rejection_rate", ("base", "rejection_rate-model")),
        ("", ("base", "xstest-tuned")),
        ("strongreject or jailbreakbench", ("orca-2", "llama")),
        ("not strongreject", ("notus-7b", "llama")),
        ("strongreject and not nothing", ("android", "notus-7b")),
        ("strongreject OR nothing", ("orca-2", "llama")),
    ],
)
def test_other_words_are_pytest_s(expression: str, candidates: tuple[str, ...]) -> None:
    require_clear(expression, (*GATES, *MORE), candidates)


@pytest.mark.parametrize(
    ("written", "names"),
    [
        (("org/a", "/data/xstest/b/"), ("a", "b")),
        (("/xstest/1/model", "/xstest/2/model"), ("1/model", "2/model")),
        (("http://x/v1#m", "http://y/v1#n"), ("m", "n")),
        (("http://x/v1#m", "http://y/v1#m"), ("http://x/v1#m", "http://y/v1#m")),
        (("m", "org/m"), ("m", "org/m")),
    ],
)
def test_candidates_are_named_by_as_little_of_their_paths_as_differs(
    written: tuple[str, ...], names: tuple[str, ...]
) -> None:
    assert _shortest(written) == names
