"""The release gates as tests.

    pytest -k xstest --candidate=MODEL --judge=JUDGE

Plain `pytest` does not collect this file, because a gate needs a model. With `testpaths` in your
configuration, name the file: pytest gates/refusal_gates.py --candidate=MODEL --judge=JUDGE.
`refusal-checks gate MODEL --judge JUDGE` does the same without this file.
"""

from refusal_checks.suite import test_gate, test_judge

__all__ = ["test_gate", "test_judge"]
