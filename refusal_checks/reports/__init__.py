"""Reports: explanations of verdicts, the terminal's summary, and files."""
