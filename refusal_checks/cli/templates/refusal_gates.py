"""The release gates as tests.

    pytest -k xstest --refusal-candidate=MODEL --refusal-judge=JUDGE

Plain `pytest` does not collect this file, because a gate needs a model. With `testpaths` in your
configuration, name the file, too: pytest gates/refusal_gates.py --refusal-candidate=MODEL ...
`refusal-checks gate MODEL --judge JUDGE` does the same without this file.
"""

from refusal_checks.suite import test_gate, test_judge

__all__ = ["test_gate", "test_judge"]
