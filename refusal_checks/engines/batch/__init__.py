"""Runs by batch files: requests are written out, results are read in."""
