"""A local page about a run that goes on: ``refusal-checks watch``."""
