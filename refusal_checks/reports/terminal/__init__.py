"""Output on the terminal about runs."""
