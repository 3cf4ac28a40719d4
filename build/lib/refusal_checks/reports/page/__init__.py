"""One HTML page: a finished run, a running one, several side by side, or all of a folder."""
