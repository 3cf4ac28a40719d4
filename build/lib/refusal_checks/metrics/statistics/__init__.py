"""Intervals and tests: pure functions over numbers."""
