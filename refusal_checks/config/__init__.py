"""The run file: its tables, its layers and ``--set``, and the run that they describe."""
