"""One HTML page for a finished run, a running one, several side by side, or a folder of runs."""
