"""The warning of an inconclusive gate, for filters of warnings."""


class InconclusiveWarning(UserWarning):
    """A gate is inconclusive, and its run file asks for a warning."""

    __module__ = "refusal_checks.plugin"  # as users' filters name it
