"""What a run prints at its end."""
