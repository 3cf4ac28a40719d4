"""What a terminal shows about runs."""

WIDTH = 100
"""Columns of everything that a terminal is shown."""
