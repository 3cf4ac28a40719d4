"""The front door: ``evaluate`` takes a ``RunSpec`` and returns a ``RunResult``."""
