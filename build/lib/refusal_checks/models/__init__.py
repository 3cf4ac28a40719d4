"""What ``--candidate`` and ``--judge`` name, and how it is asked."""
