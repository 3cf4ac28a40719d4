"""The stages of a run: each takes values and returns values."""
