"""One HTML page for a finished run."""
