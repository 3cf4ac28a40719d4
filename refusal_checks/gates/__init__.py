"""From run files to verdicts."""
