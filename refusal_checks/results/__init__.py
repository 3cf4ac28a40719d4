"""What a run leaves behind: its folder, with summary, records and manifest."""
