"""Where engines run: which devices each one gets, and whether all run at the same time."""
