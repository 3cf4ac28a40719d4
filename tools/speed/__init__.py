"""How fast the gate is, against floors that are measured beside it. A script, never a test.

``python -m tools.speed`` runs it all; ``docs/explanation/speed.md`` has what it printed.
"""
