"""Report formats beside refusal-checks, written with its public names alone."""
