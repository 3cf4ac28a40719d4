"""The release gates as tests; import them into a test file of any repository."""

from collections.abc import Callable


def test_judge(refusal_require_trust: Callable[[], None]) -> None:
    """The judge is right about exchanges with known verdicts."""
    refusal_require_trust()


def test_gate(refusal_require_pass: Callable[[], None]) -> None:
    """The figure meets its threshold."""
    refusal_require_pass()
