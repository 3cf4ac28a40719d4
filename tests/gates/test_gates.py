"""The release gate: checks of the judge, and one test for each gate of the run files."""

from refusal_checks.suite import test_gate, test_judge

__all__ = ["test_gate", "test_judge"]
