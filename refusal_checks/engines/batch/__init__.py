"""Runs by batch files: write requests to files, read results from files."""
