"""What people read: explanations of verdicts, the terminal's summary, and report files."""
