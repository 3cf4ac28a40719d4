"""Measuring scripts. Each prints a table with the command, the versions and the machine above it.

``plain`` compares the gate with a user's own script, ``bookkeeping`` measures what the gate adds to
a server's time, ``start`` divides an engine's start into phases, and ``gpu`` does all of these on a
machine that is available for minutes only. ``docs/explanation/measurements.md`` has the results.
"""
