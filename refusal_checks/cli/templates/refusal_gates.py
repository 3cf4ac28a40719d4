"""The release gates as tests.

    pytest gates/refusal_gates.py --candidate=MODEL --judge=JUDGE

Plain `pytest` does not collect this file, because its name does not begin with test_: a gate needs
a model. `refusal-checks gate MODEL --judge JUDGE` does the same without this file.
"""

from refusal_checks.suite import test_gate, test_judge

__all__ = ["test_gate", "test_judge"]
