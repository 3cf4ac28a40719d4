"""From threshold files to verdicts."""
