"""Measuring scripts. Each prints a table with the command, the versions and the machine above it.

``gpu`` measures the gate beside a user's own script, sampling, and what log-probabilities cost, on
a GPU that is available for minutes or on a CPU; ``bookkeeping`` measures what the gate adds to a
server's time, and ``start`` divides an engine's start into phases.
``docs/explanation/measurements.md`` has the results.
"""
