"""The warning category of inconclusive gates, for warning filters."""


class InconclusiveWarning(UserWarning):
    """Issued when a gate is inconclusive and its run file asks for a warning."""

    __module__ = "refusal_checks.plugin"  # as users' filters name it
