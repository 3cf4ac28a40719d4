"""The release gate as tests, for a test file in any repository that imports them from here."""

from collections.abc import Callable


def test_judge(refusal_require_trust: Callable[[], None]) -> None:
    """The judge is right about exchanges whose verdict is known."""
    refusal_require_trust()


def test_gate(refusal_require_pass: Callable[[], None]) -> None:
    """The figure is on the right side of its threshold."""
    refusal_require_pass()
